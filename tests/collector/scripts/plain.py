"""Training that knows nothing of rankscope: `plain.py STEPS [STATUS]`."""

import sys

import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
sys.stdout.write("done\n")
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
