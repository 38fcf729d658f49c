# The image of `make image`, for those who have a daemon: the same scripts make the binary of a release and the file system around it.
# The project's own tests have no daemon; tests/image tries what the scripts make.
#
#   docker build -t REGISTRY/berth:0.1.0 .

# The compiler pinned in rust-toolchain.toml, on the Debian whose C library the binary is linked with and the image has.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
# rust-toolchain.toml stays out: it asks for clippy and rustfmt, which a build does not need.
COPY Cargo.toml Cargo.lock LICENSE ./
COPY crates ./crates
COPY src ./src
# Cargo reads the manifests of all members and of the benchmarks.
COPY tests/lab ./tests/lab
COPY benches ./benches
RUN cargo build --locked --profile dist --package berth --bin berth
COPY hack/symbols.sh hack/image-root.sh ./hack/
RUN hack/symbols.sh target/dist/berth /binary && hack/image-root.sh /image /binary/berth

FROM scratch
COPY --from=build /image /
# Numeric, or the kubelet cannot tell that it is not root. The chart sets the same.
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/berth"]
CMD ["operator"]
