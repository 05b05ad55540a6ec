"""What NCCL says of itself beside the traces: debug logs, Inspector records, topologies, graphs, tables of nccl-tests."""
