# A small static image of the operator. It is not built by the project's own tests, which run the binary itself.
#
#   docker build -t REGISTRY/berth:0.1.0 .

# The compiler pinned in rust-toolchain.toml, on Alpine: its own target is musl, so the binary is static and needs no libc.
FROM rust:1.95.0-alpine AS build
# ring compiles C and assembly. The authorities are for the image below.
RUN apk add --no-cache ca-certificates gcc musl-dev make
WORKDIR /src
# rust-toolchain.toml stays out: it asks for clippy and rustfmt, which a build does not need.
COPY Cargo.toml Cargo.lock ./
COPY crates ./crates
COPY src ./src
# Cargo reads the manifests of all members and of the benchmarks.
COPY tests/lab ./tests/lab
COPY benches ./benches
RUN cargo build --locked --release --package berth --bin berth \
 && cp target/release/berth /berth

FROM scratch
COPY --from=build /berth /berth
# Without them an extender with a public certificate could not be verified, only skipped.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY LICENSE /LICENSE
# Numeric, or the kubelet cannot tell that it is not root. The chart sets the same.
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/berth"]
CMD ["operator"]
