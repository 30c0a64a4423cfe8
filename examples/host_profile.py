"""Prints speeds of the workloads of generated traces by cores and cached data, for `--slowdowns hosts=FILE`.

The epochs are invented, in the range of public measurements: images and speech are short of cores at three
for each GPU, words are not.  Replace them by your own, measured with `sample_cores`, to get your profile.
"""

from rota.knowledge.host_profile import CacheModel

SHARE = (3.0, 62.5)  # cores and GiB for each GPU of a server with 24 cores, 500 GiB and 8 GPUs
CORES = (1, 2, 3, 4, 6, 9, 12)


def epochs(work_s: float, floor_s: float) -> dict[float, float]:
    """Seconds of an epoch by cores: the larger of `work_s` on one core, divided, and the GPU's `floor_s`."""
    return {float(cores): max(work_s / cores, floor_s) for cores in CORES}


IMAGES, SPEECH, WORDS = 140.0, 180.0, 16.0  # GB of data
MODELS = {
    "resnet50": CacheModel(IMAGES, 500, 10, epochs(1800, 480)),
    "resnet152": CacheModel(IMAGES, 500, 10, epochs(1800, 900)),
    "inception3": CacheModel(IMAGES, 500, 10, epochs(1800, 600)),
    "googlenet": CacheModel(IMAGES, 500, 10, epochs(1800, 300)),
    "vgg16": CacheModel(IMAGES, 500, 10, epochs(1800, 700)),
    "vgg19": CacheModel(IMAGES, 500, 10, epochs(1800, 800)),
    "alexnet": CacheModel(IMAGES, 500, 10, epochs(1800, 150)),
    "deepspeech2": CacheModel(SPEECH, 500, 10, epochs(2400, 500)),
    "bert": CacheModel(WORDS, 500, 10, epochs(300, 900)),
    "gpt2": CacheModel(WORDS, 500, 10, epochs(300, 1200)),
}

print("workload,cpus_per_gpu,gib_per_gpu,speed,disk_mb_s")
for name, model in MODELS.items():
    speeds = model.speeds(SHARE, parts=(0.25, 0.5, 0.75, 1.0))
    for i, cores in enumerate(speeds.cpus):
        for k, gib in enumerate(speeds.gib):
            print(f"{name},{cores:g},{gib:g},{speeds.speeds[i, k]:.4g},{speeds.disk[i, k]:.4g}")
