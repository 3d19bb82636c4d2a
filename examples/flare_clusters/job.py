"""FedAvg by FLARE's recipe in clusters of similar sites: python job.py SITES MATRIX CLUSTERS."""

import sys
import tempfile
from pathlib import Path

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from task import Net, load_data, test

import fedwad
from fedwad.engines.flare import clustered


def make(members):
    """The recipe for these sites; nothing in it knows of clusters."""
    torch.manual_seed(0)
    return FedAvgRecipe(
        name=f"from-{members[0]}",
        min_clients=len(members),
        num_rounds=5,
        model=Net(),
        train_script=str(Path(__file__).with_name("client.py")),
        train_args=sys.argv[1],
    )


def main():
    """Train in the simulator, and say the accuracy of each cluster's model at its sites."""
    folder, m, k = sys.argv[1], fedwad.MatrixResult.load(sys.argv[2]), int(sys.argv[3])
    accuracies = []
    # recipe = make(m.sites); recipe.execute(SimEnv(clients=list(m.sites)))
    for members, recipe in clustered(make, clusters=m.cluster(k), sites=m.sites):
        with tempfile.TemporaryDirectory() as workspace:
            env = SimEnv(
                clients=members, num_threads=min(2, len(members)), workspace_root=workspace
            )
            recipe.execute(env)
            (path,) = Path(workspace).rglob("FL_global_model.pt")
            net = Net()
            net.load_state_dict(torch.load(path, weights_only=True)["model"])
        for name in members:
            _, tests = load_data(folder, name)
            accuracies.append(test(net, tests)[1])
    print(f"{k} clusters: accuracy {sum(accuracies) / len(accuracies):.4f}", flush=True)


if __name__ == "__main__":
    main()
