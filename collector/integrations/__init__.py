"""Hooks into what people train with, one file a framework: imported by the script that uses it, by nothing of ours."""
