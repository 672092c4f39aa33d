# To build and run an image with the command alone:
#
#   docker build -t mquine .
#   docker run --rm -v "$PWD:/data" mquine eval ./checkpoint --data umls
#
# To build and run an image that can use GPUs (running it needs the NVIDIA container toolkit):
#
#   docker build -t mquine-cuda --target cuda .
#   docker run --rm --gpus all -v "$PWD:/data" mquine-cuda eval ./checkpoint --data umls --backend cuda

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags "-s -w" -o /cuda/mquine ./cmd/mquine \
 && go build -trimpath -ldflags "-s -w" -tags nocuda -o /static/mquine ./cmd/mquine

# This image has a dynamic loader, which finds the driver that the toolkit mounts.
FROM debian:stable-slim AS cuda
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /cuda/mquine /mquine
# The driver keeps compiled kernels in the mounted folder, because docker run --rm removes all others.
ENV MQUINE_DATA=/data/datasets TMPDIR=/data CUDA_CACHE_PATH=/data/.nv
WORKDIR /data
ENTRYPOINT ["/mquine"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /static/mquine /mquine
ENV MQUINE_DATA=/data/datasets TMPDIR=/data
WORKDIR /data
ENTRYPOINT ["/mquine"]
