# syntax=docker/dockerfile:1
#
# Two images out of one build, each with nothing in it but one static binary, the
# certificate authorities and a user that is not root:
#
#   docker build --target authz -t gatehouse/authz .
#   docker build --target demo-resource -t gatehouse/demo-resource .
#
# The build reads the module's own files only; .dockerignore keeps keys out of it.

FROM golang:1.26 AS build
# The compiler of the image is the one that builds: none is downloaded.
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOCACHE=/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    go build -trimpath -buildvcs=false -ldflags="-s -w" -o /out/ ./cmd/authz ./cmd/demo-resource

# What both images have in common: the certificate authorities and a user that is not root.
FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532

FROM base AS demo-resource
COPY --from=build /out/demo-resource /demo-resource
EXPOSE 8081
ENTRYPOINT ["/demo-resource"]

# The last stage is the one that is built when none is named.
FROM base AS authz
COPY --from=build /out/authz /authz
EXPOSE 8080
ENTRYPOINT ["/authz"]
CMD ["serve"]
