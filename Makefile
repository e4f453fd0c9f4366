# Everything a developer or a build machine does, by name. Each target installs
# the Debian packages it needs when it runs as root, and otherwise prints the
# command that does. `make help` lists the targets.

CARGO ?= cargo
# The stable compiler by name, whatever rustup's default is; another one:
# make RUSTUP_TOOLCHAIN=1.95.0 test
export RUSTUP_TOOLCHAIN := stable
FUZZ_SECONDS ?= 60
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run build build-deps test-deps vm-deps bench-deps test test-long bench report vm-test lint fuzz asan docs site profile dist package-deps programs deb rpm package-test rpm-test image-test musl reproducible clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build-deps:
	@scripts/install-build-deps.sh

test-deps:
	@scripts/install-test-deps.sh

vm-deps:
	@scripts/install-vm-deps.sh

build: build-deps ## the release binary, target/release/sealane
	scripts/profile-build.sh

programs: build-deps ## the release binaries of server and load generator
	scripts/profile-build.sh sealane sealane-bench

run: build-deps ## build quickly, make certificates if there are none, serve https://localhost:8443
	$(CARGO) build --profile quick --locked -p sealane
	@scripts/quickstart.sh

test: test-deps vm-deps ## every test, in bounded counts
	scripts/run-tests.sh

test-long: test-deps vm-deps ## the same with the counts of a soak: more connections, whether RSA's time depends on the key, minutes of fuzzing
	scripts/peers/build-nginx.sh
	SEALANE_TEST_LONG=1 scripts/run-tests.sh
	$(CARGO) run --release --locked -p sealane-vector --example rsa_timing
	$(MAKE) fuzz

lint: build-deps ## formatting, clippy and rustdoc without warnings, and the rules of CONTRIBUTING.md
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items --locked --quiet
	$(CARGO) test --workspace --locked --test tidy

bench-deps:
	@scripts/install-bench-deps.sh

bench: programs bench-deps ## Sealane against nginx on one pinned core, in ratios of server CPU
	bench/run.sh $(BENCH_ARGS)

report: programs bench-deps ## sealane-report.html: published tables beside what is measured here, in half an hour
	bench/run.sh report $(BENCH_ARGS)

fuzz: build-deps ## coverage-guided fuzzing of every parser, FUZZ_SECONDS (60) each
	fuzz/run.sh $(FUZZ_SECONDS)

asan: test-deps ## the tests of handshakes with AddressSanitizer, in the server, AWS-LC and the tests
	scripts/asan.sh

vm-test: build-deps vm-deps ## kernel TLS in Debian's kernels under QEMU, all but the counts of a soak
	scripts/peers/build-nginx.sh
	$(CARGO) build --profile quick --locked -p sealane
	SEALANE_VM_EVERYTHING=1 SEALANE_BINARY=$${CARGO_TARGET_DIR:-$(CURDIR)/target}/quick/sealane $(CARGO) test --locked -p sealane-vm

docs: build-deps ## what is generated (docs/directives.md, manual pages, completions) and the API documentation
	scripts/generate-docs.sh
	$(CARGO) doc --workspace --no-deps --locked

site: build-deps ## the documentation as a site, dist/site
	scripts/site.sh

profile: bench-deps build-deps ## train: make the profile that the release build uses (release/sealane.profdata) anew
	scripts/profile-build.sh --train

dist: programs ## dist/sealane-VERSION-ARCH-linux.tar.gz
	scripts/dist.sh

package-deps:
	@scripts/install-package-deps.sh

deb: programs package-deps ## dist/sealane_VERSION_ARCH.deb
	scripts/package.sh deb

rpm: programs package-deps ## dist/sealane-VERSION.ARCH.rpm
	scripts/package.sh rpm

musl: build-deps ## dist/sealane-VERSION-ARCH-linux-musl.tar.gz: static, for any Linux
	scripts/musl-build.sh
	SEALANE_BINARY=target-musl/$$(uname -m)-unknown-linux-musl/release/sealane scripts/dist.sh musl

package-test: ## the Debian package in a clean Debian: install, serve, upgrade under load, purge; SEALANE_BINARY=PATH packs that one
	@scripts/install-package-deps.sh test
	scripts/package-test.sh

rpm-test: ## the RPM by rpm in a clean root: install, serve, upgrade under load, remove; SEALANE_BINARY=PATH packs that one
	@scripts/install-package-deps.sh test
	scripts/rpm-test.sh

image-test: ## the container image, made and run by Debian's container tools; SEALANE_BINARY=PATH puts that one into it
	@scripts/install-package-deps.sh image
	scripts/image-test.sh

reproducible: build-deps package-deps ## build what `make dist deb rpm` makes twice, in two directories, and compare the bytes
	scripts/reproducible.sh

clean: ## remove build results and what the quickstart created
	$(CARGO) clean
	rm -rf dist examples/*/certificates examples/*/logs
