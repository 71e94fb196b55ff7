# gpnn on an NVIDIA GPU; the host needs a driver and NVIDIA's container toolkit:
#   docker build --file docker/cuda.Dockerfile --tag gpnn:cuda .
#   docker run --rm --gpus all --volume "$PWD:/work" gpnn:cuda train my-graph --out run
FROM python:3.12-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.6.1
COPY pyproject.toml README.md LICENSE ./
COPY gpnn ./gpnn
RUN python -m build --wheel --outdir /wheels

FROM python:3.12-slim
# Triton compiles the launcher of its kernels
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
# PyPI's torch for Linux brings the CUDA libraries
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt torch \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt "$(echo /wheels/gpnn-*.whl)[metis]" \
    && rm -r /wheels /tmp/constraints.txt
RUN useradd --create-home --uid 1000 gpnn && mkdir /work && chown gpnn /work
USER gpnn
WORKDIR /work
ENTRYPOINT ["gpnn"]
CMD ["--help"]
