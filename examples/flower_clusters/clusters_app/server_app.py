"""The ServerApp of quickstart-pytorch, with one line changed: the strategy runs in clusters."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fedwad
from clusters_app.task import Net
from fedwad.engines.flower import Clustered

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and say the accuracy after the last round."""
    torch.manual_seed(0)
    k = context.run_config["clusters"]
    m = fedwad.MatrixResult.load(context.run_config["matrix"])
    # strategy = FedAvg(fraction_train=1.0)
    strategy = Clustered(lambda: FedAvg(fraction_train=1.0), clusters=m.cluster(k))
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
    )
    last = result.evaluate_metrics_clientapp[context.run_config["num-server-rounds"]]
    print(f"{k} clusters: accuracy {last['eval_acc']:.4f}", flush=True)
