"""The model and the data of a site, as in the quickstart of PyTorch."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small network for images of digits."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def load_data(folder: str, name: str):
    """The data of a site: four fifths of its rows for training, the rest for tests."""
    with np.load(Path(folder) / f"{name}.npz") as file:
        X, y = torch.tensor(file["X"], dtype=torch.float32), torch.tensor(file["y"]).long()
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    cut = len(X) * 4 // 5
    parts = [TensorDataset(X[rows], y[rows]) for rows in (order[:cut], order[cut:])]
    return DataLoader(parts[0], batch_size=32, shuffle=True), DataLoader(parts[1], batch_size=256)


def train(net, loader, epochs, lr):
    """Train the network; the mean loss of the last epoch."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / len(loader)


def test(net, loader):
    """Loss and accuracy on the test samples."""
    correct, loss = 0, 0.0
    with torch.no_grad():
        for x, y in loader:
            outputs = net(x)
            loss += nn.functional.cross_entropy(outputs, y).item()
            correct += (outputs.argmax(1) == y).sum().item()
    return loss / len(loader), correct / len(loader.dataset)
