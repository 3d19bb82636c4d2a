"""The training script of FLARE's quickstart: it knows nothing of clusters."""

import sys

import nvflare.client as flare
import torch
from task import Net, load_data, test, train

if __name__ == "__main__":
    torch.set_num_threads(1)
    flare.init()
    loader, tests = load_data(sys.argv[1], flare.get_site_name())
    net = Net()
    while flare.is_running():
        received = flare.receive()
        torch.manual_seed(0)
        net.load_state_dict({name: torch.as_tensor(one) for name, one in received.params.items()})
        _, accuracy = test(net, tests)
        train(net, loader, epochs=2, lr=0.05)
        flare.send(
            flare.FLModel(
                params=net.cpu().state_dict(),
                metrics={"accuracy": accuracy},
                meta={"NUM_STEPS_CURRENT_ROUND": len(loader.dataset)},
            )
        )
