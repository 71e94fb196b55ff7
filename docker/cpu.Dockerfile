# gpnn on the CPU:
#   docker build --file docker/cpu.Dockerfile --tag gpnn:cpu .
#   docker run --rm --volume "$PWD:/work" gpnn:cpu train my-graph --out run
FROM python:3.12-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.6.1
COPY pyproject.toml README.md LICENSE ./
COPY gpnn ./gpnn
RUN python -m build --wheel --outdir /wheels

FROM python:3.12-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
# torch's build without CUDA comes from PyTorch's own index, which uv knows
RUN pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --torch-backend=cpu --constraint /tmp/constraints.txt torch \
    && uv pip install --system --no-cache --torch-backend=cpu --constraint /tmp/constraints.txt \
        "$(echo /wheels/gpnn-*.whl)[metis]" \
    && rm -r /wheels /tmp/constraints.txt
RUN useradd --create-home --uid 1000 gpnn && mkdir /work && chown gpnn /work
USER gpnn
WORKDIR /work
ENTRYPOINT ["gpnn"]
CMD ["--help"]
