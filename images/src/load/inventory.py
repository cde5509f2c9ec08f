import json
import sys

versions = {"Python": "{}.{}.{}".format(*sys.version_info[:3])}
packages = {}
try:
    from importlib.metadata import distributions

    for found in distributions():
        name = found.metadata["Name"]
        if name:
            packages.setdefault(name.lower().replace("_", "-"), found.version)
except Exception:
    pass
try:
    package = None
    with open("/var/lib/dpkg/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            key, _, value = line.partition(": ")
            if key == "Package":
                package = value.strip()
            elif key == "Version" and package:
                packages.setdefault(package, value.strip())
except OSError:
    pass
try:
    import torch

    versions["torch"] = str(torch.__version__)
    if torch.version.cuda:
        versions["CUDA"] = torch.version.cuda
    cudnn = torch.backends.cudnn.version() if torch.version.cuda else None
    if cudnn:
        # 91002 is 9.10.2, and 8907 is 8.9.7.
        major, rest = divmod(cudnn, 10000 if cudnn >= 90000 else 1000)
        versions["cuDNN"] = "{}.{}.{}".format(major, *divmod(rest, 100))
    if torch.version.cuda:
        versions["NCCL"] = ".".join(map(str, torch.cuda.nccl.version()))
except Exception:
    pass
if "triton" in packages:
    versions["Triton"] = packages["triton"]
print(json.dumps({"versions": versions, "packages": packages}))
