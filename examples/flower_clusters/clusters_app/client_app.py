"""The ClientApp of quickstart-pytorch: it knows nothing of clusters."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from clusters_app.task import Net, load_data
from clusters_app.task import test as test_fn
from clusters_app.task import train as train_fn

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on the data of this site."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loader, _ = load_data(context.run_config["sites"], context.node_config["partition-id"])
    loss = train_fn(model, loader, context.run_config["local-epochs"], context.run_config["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the model on the data of this site."""
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, loader = load_data(context.run_config["sites"], context.node_config["partition-id"])
    loss, accuracy = test_fn(model, loader)
    metrics = MetricRecord(
        {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(loader.dataset)}
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
