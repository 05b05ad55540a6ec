"""`python -m rankscope.kernels.trainer` and `torchrun -m rankscope.kernels.trainer`."""

from rankscope.kernels.trainer.options import parse
from rankscope.kernels.trainer.train import train

if __name__ == "__main__":
    train(parse())
