"""The reference trainer: a small LLaMA-style model trained with FSDP2, DDP and more, as a model of how to do it.

torchrun --nproc-per-node 4 -m rankscope.kernels.trainer --steps 50 --profile runs/a
"""
