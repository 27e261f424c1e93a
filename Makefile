# SPDX-License-Identifier: BSD-2-Clause
#
# make            build everything                 sudo make check   all tests, packages included
# sudo make deps  install the Debian packages      sudo make demo    see it work, packages included
# make help       the other goals
#
# Sources are found by wildcard: a new file in a known folder needs no edit here. Nothing that is
# run while this file is being read may need more than make and a shell, since `make check` has to
# start on a machine without a compiler.

VERSION  := $(shell cat VERSION)
# Where `make install` puts things. Packages set PREFIX=/usr and what differs on their system.
PREFIX   ?= /usr/local
DESTDIR  ?=
BINDIR   ?= $(PREFIX)/bin
SBINDIR  ?= $(PREFIX)/sbin
LIBDIR   ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR   ?= $(PREFIX)/share/man
DOCDIR   ?= $(PREFIX)/share/doc/mroce
UNITDIR  ?= $(PREFIX)/lib/systemd/system
BPFDIR   ?= $(PREFIX)/lib/mroce
# mroced itself looks here whatever PREFIX is.
CONFDIR  ?= /etc/mroce
SAN      ?=
# SAN=1 builds with gcc's sanitizers, SAN=fuzz with clang's and libFuzzer, each in its own folder.
ASAN_BUILD ?= build-asan
FUZZ_BUILD ?= build-fuzz
BUILD    ?= $(if $(filter fuzz,$(SAN)),$(FUZZ_BUILD),$(if $(SAN),$(ASAN_BUILD),build))
RUN_TESTS = BUILD=$(BUILD) ASAN_BUILD=$(ASAN_BUILD) FUZZ_BUILD=$(FUZZ_BUILD) tests/run
FUZZ_SECONDS ?= 600

CC       := $(if $(filter fuzz,$(SAN)),clang,gcc)
CLANG    ?= clang
BPFTOOL  ?= bpftool
STRIP_BPF ?= llvm-strip
MULTIARCH = $(shell uname -m)-linux-gnu
# bpftool lives in /usr/sbin, which is not on everybody's path.
export PATH := $(PATH):/usr/sbin:/sbin

# --- flags ---------------------------------------------------------------------------------------
WARN     := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wshadow
CPPFLAGS += -D_GNU_SOURCE -DMROCE_VERSION='"$(VERSION)"' \
	-Iinclude -Ilib -I. -I$(BUILD)/bpf -I$(BUILD)/tests/fabric -I$(BUILD)/tests/bpf
OPT      := -O2 -g -fstack-protector-strong -fno-strict-aliasing
LDFLAGS  += -Wl,--as-needed -Wl,-z,relro,-z,now -pthread
ifeq ($(SAN),)
CPPFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
else
CPPFLAGS += -DMROCE_DEBUG=1
OPT      += -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=address,undefined
LDFLAGS  += -fsanitize=address,undefined
endif
ifeq ($(SAN),fuzz)
WARN     := -Wall
OPT      += -fsanitize=fuzzer-no-link
endif
CFLAGS   += -std=gnu11 $(OPT) $(WARN) -pthread
BPFFLAGS := -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror \
	-Iinclude -Ibpf/lib -Ibpf -I. -I/usr/include/$(MULTIARCH)

# --as-needed keeps of these what a program really uses.
LIBS      = -lxdp -lbpf -lmnl -linih -ljansson -lsystemd -lisal -lsodium -lcap-ng -lck -lmicrohttpd -lm
TEST_LIBS = $(shell pkg-config --libs check) $(LIBS)

# --- what there is -------------------------------------------------------------------------------
objects  = $(patsubst %.c,$(BUILD)/%.o,$(1))
plain_c  = $(filter-out %.bpf.c,$(wildcard $(1)))

BPF_SRC     := $(wildcard bpf/*.bpf.c)
TESTBPF_SRC := $(wildcard tests/bpf/*.bpf.c)
FABBPF_SRC  := $(wildcard tests/fabric/*.bpf.c)
COMMON_SRC  := $(wildcard lib/common/*.c)
CORE_SRC    := $(wildcard lib/core/*.c)
CLIENT_SRC  := $(wildcard lib/client/*.c)
COLL_SRC    := $(wildcard lib/collective/*.c)
DAEMON_SRC  := $(filter-out daemon/main.c,$(call plain_c,daemon/*.c daemon/*/*.c))
CLI_SRC     := $(wildcard cli/*.c)
EXAMPLE_SRC := $(wildcard examples/*.c)
UNIT_SRC    := $(wildcard tests/unit/test_*.c)
UNIT_HELP   := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
SIM_SRC     := $(wildcard tests/sim/*.c)
BPFT_SRC    := $(call plain_c,tests/bpf/*.c)
NET_SRC     := $(call plain_c,tests/net/*.c)
OPS_SRC     := $(call plain_c,tests/ops/*.c)
NETBPF_SRC  := $(wildcard tests/net/*.bpf.c)
FUZZ_SRC    := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_HELP   := $(filter-out $(FUZZ_SRC),$(wildcard tests/fuzz/*.c))
FABRIC_ALL  := $(call plain_c,tests/fabric/*.c)
FABRIC_SRC  := $(if $(FABRIC_ALL),$(shell grep -l '^int main\>' $(FABRIC_ALL)))
FABRIC_HELP := $(filter-out $(FABRIC_SRC),$(FABRIC_ALL))
MAN_SRC     := $(wildcard docs/man/*.scd)

skeletons = $(patsubst %.bpf.c,$(BUILD)/%.skel.h,$(1))
SKELS     := $(call skeletons,$(BPF_SRC))
BPF_OBJ   := $(patsubst %.bpf.c,$(BUILD)/%.bpf.o,$(BPF_SRC))

COMMON    := $(BUILD)/libmroce_common.a
CORE      := $(BUILD)/libmroce_core.a
CLIENT    := $(BUILD)/libmroce.a
COLL      := $(BUILD)/libmroce-collective.a
DAEMON    := $(BUILD)/libmroced.a
CLI       := $(BUILD)/libmroce_cli.a
SONAME    := libmroce.so.$(firstword $(subst ., ,$(VERSION)))
SOFILE    := libmroce.so.$(VERSION)
SYMMAP    := $(wildcard lib/client/libmroce.map)
COLL_SONAME := libmroce-collective.so.$(firstword $(subst ., ,$(VERSION)))
COLL_SOFILE := libmroce-collective.so.$(VERSION)
COLL_SYMMAP := lib/collective/libmroce-collective.map

SHARED    := $(if $(CLIENT_SRC),$(BUILD)/$(SOFILE))
COLL_SHARED := $(BUILD)/$(COLL_SOFILE)
PROGRAMS  := $(if $(wildcard daemon/main.c),$(BUILD)/mroced) $(if $(CLI_SRC),$(BUILD)/mroce)
EXAMPLES  := $(patsubst %.c,$(BUILD)/%,$(EXAMPLE_SRC))
# An example of several sources and one program.
TRAIN_SRC := $(wildcard examples/training/*.c)
TRAINING  := $(BUILD)/examples/training/training
MAN       := $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(MAN_SRC))
UNIT      := $(patsubst %.c,$(BUILD)/%,$(UNIT_SRC))
SIM       := $(if $(SIM_SRC),$(BUILD)/tests/sim/sim)
BPFT      := $(if $(BPFT_SRC),$(BUILD)/tests/bpf/bpf_tests)
NET       := $(patsubst %.c,$(BUILD)/%,$(NET_SRC))
OPS       := $(patsubst %.c,$(BUILD)/%,$(OPS_SRC))
FUZZ      := $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
FABRIC    := $(patsubst %.c,$(BUILD)/%,$(FABRIC_SRC)) $(patsubst %.bpf.c,$(BUILD)/%.bpf.o,$(FABBPF_SRC))

# A test named after a source of the lower floors is linked with those floors only.
LOW_NAMES := $(basename $(notdir $(CORE_SRC) $(COMMON_SRC) $(wildcard include/mroce/*.h)))
UNIT_LOW  := $(filter $(patsubst %,$(BUILD)/tests/unit/test_%,$(LOW_NAMES)),$(UNIT))
UNIT_HIGH := $(filter-out $(UNIT_LOW),$(UNIT))

# --- goals ---------------------------------------------------------------------------------------
.PHONY: all deps tools check demo bench figures install uninstall lint format fuzz fabric asan clean help
.PHONY: test-programs unit sim bpf-tests fuzz-programs asan-programs FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BPF_OBJ) $(SKELS) $(CORE) $(COMMON) $(if $(CLIENT_SRC),$(CLIENT)) $(COLL) $(SHARED) $(COLL_SHARED) $(PROGRAMS) \
	$(EXAMPLES) $(TRAINING) $(MAN)

help:
	@echo 'all        build everything into build/ (V=1 shows the commands)'
	@echo 'deps       install the Debian packages needed (as root)'
	@echo 'check      install packages, build, run every test (as root; see docs/testing.md)'
	@echo 'demo       install packages, build, send real files over a lossy fabric (as root)'
	@echo 'bench      install packages, build, measure against TCP (as root)'
	@echo 'figures    measure and simulate all figures of the documentation anew (as root, an hour)'
	@echo 'install    into DESTDIR=$(DESTDIR) PREFIX=$(PREFIX); uninstall takes it away again'
	@echo 'deb        Debian packages, into the folder above this one'
	@echo 'asan       unit and simulator tests under ASan and UBSan'
	@echo 'fuzz       fuzz every target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'fabric     only the test fabric'
	@echo 'lint       formatting, static analysis, shell scripts, words that must not stay'
	@echo 'format     lay out all C sources by .clang-format'
	@echo 'clean      remove build/, build-asan/ and build-fuzz/'

deps:
	@scripts/deps

# One clear sentence instead of a compiler error on a machine without the packages.
tools:
	@scripts/deps --check --build

# A fresh make after the packages are there; with as many jobs as CPUs unless the user chose.
SUBMAKE = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# What sudo made belongs to who called it, for whom `make` and `tests/run` would fail otherwise.
GIVE_BACK = status=$$?; [ -z "$$SUDO_UID" ] || for dir in $(BUILD) $(ASAN_BUILD) $(FUZZ_BUILD); do \
	[ ! -d "$$dir" ] || chown -R "$$SUDO_UID:$$SUDO_GID" "$$dir"; done; exit $$status

check:
	@scripts/deps
	+@$(SUBMAKE) test-programs; $(GIVE_BACK)
	@$(RUN_TESTS) $(SUITES); $(GIVE_BACK)

demo:
	@scripts/deps
	+@$(SUBMAKE) all fabric; $(GIVE_BACK)
	@scripts/demo

bench:
	@scripts/deps
	@scripts/deps --bench || echo 'bench: goes on without plots, or without a profile'
	+@$(SUBMAKE) all fabric net-tests; $(GIVE_BACK)
	@scripts/bench; $(GIVE_BACK)

# Writes the figures of the documentation anew: docs/measured.md, docs/simulated.md, docs/plots/.
figures:
	@scripts/deps
	@scripts/deps --bench
	+@$(SUBMAKE) all fabric net-tests sim; $(GIVE_BACK)
	@scripts/sim-figures --docs; $(GIVE_BACK)
	@scripts/bench --docs; $(GIVE_BACK)

asan: asan-programs
	@$(RUN_TESTS) asan

fuzz: fuzz-programs
	@MROCE_FUZZ_SECONDS=$(FUZZ_SECONDS) $(RUN_TESTS) fuzz

fabric: $(FABRIC)
unit: $(UNIT)
sim: $(SIM)
bpf-tests: $(BPFT) $(patsubst %.bpf.c,$(BUILD)/%.bpf.o,$(TESTBPF_SRC))
test-programs: all fabric unit sim bpf-tests net-tests ops-tests asan-programs fuzz-programs
net-tests: $(NET) $(patsubst %.bpf.c,$(BUILD)/%.bpf.o,$(NETBPF_SRC))
ops-tests: $(OPS)
.PHONY: net-tests ops-tests
asan-programs:
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(ASAN_BUILD) unit sim
fuzz-programs:
	@$(MAKE) --no-print-directory SAN=fuzz BUILD=$(FUZZ_BUILD) fuzzers
.PHONY: fuzzers
fuzzers: $(FUZZ)

clean:
	rm -rf $(BUILD) $(ASAN_BUILD) $(FUZZ_BUILD)

# --- how things are made -------------------------------------------------------------------------
Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2);)
# bpf/mroce_xdp.bpf.c gives struct mroce_xdp, tests/fabric/switch.bpf.c struct fabric_switch.
skel_name = $(if $(filter mroce_%,$(*F)),$(*F),$(notdir $(*D))_$(*F))
pic  = $(if $(filter lib/client/% lib/collective/% lib/common/%,$<),-fPIC -fno-semantic-interposition,-fPIE)

$(BUILD)/%.bpf.o: %.bpf.c Makefile | tools
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
	$(Q)$(STRIP_BPF) -g $@

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(skel_name) > $@

$(BUILD)/%.o: %.c Makefile VERSION | tools
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(pic) -MMD -MP -c $< -o $@

define AR
$(call say,AR,$@)
$(Q)mkdir -p $(@D) && rm -f $@ && ar rcs $@ $(filter %.o,$^)
endef
define LINK
$(call say,LD,$@)
$(Q)$(CC) $(LDFLAGS) -pie -o $@ $(filter %.o %.a,$^)
endef

$(COMMON): $(call objects,$(COMMON_SRC))
	$(AR)
$(CORE): $(call objects,$(CORE_SRC))
	$(AR)
$(CLIENT): $(call objects,$(CLIENT_SRC) $(COMMON_SRC))
	$(AR)
$(COLL): $(call objects,$(COLL_SRC))
	$(AR)
# Loops over arrays, written for the vectoriser; nobody looks at floating-point exceptions, and selections
# between results could not be vectors if somebody did.
$(call objects,$(addprefix lib/collective/,half.c reduce.c hadamard.c)): OPT += -O3 -fno-trapping-math
$(DAEMON): $(call objects,$(DAEMON_SRC))
	$(AR)
$(CLI): $(call objects,$(filter-out cli/main.c,$(CLI_SRC)))
	$(AR)

$(BUILD)/$(SOFILE): $(call objects,$(CLIENT_SRC)) $(COMMON) $(SYMMAP)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL \
		$(if $(SYMMAP),-Wl$(,)--version-script=$(SYMMAP)) -o $@ $(filter %.o %.a,$^) $(LIBS)
	$(Q)ln -sf $(SOFILE) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/libmroce.so

$(BUILD)/$(COLL_SOFILE): $(call objects,$(COLL_SRC)) $(SHARED) $(COLL_SYMMAP)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,$(COLL_SONAME) \
		-Wl,--version-script=$(COLL_SYMMAP) -o $@ $(filter %.o,$^) -L$(BUILD) -lmroce -lm
	$(Q)ln -sf $(COLL_SOFILE) $(BUILD)/$(COLL_SONAME) && ln -sf $(COLL_SONAME) $(BUILD)/libmroce-collective.so
, := ,

$(BUILD)/mroced: $(call objects,$(wildcard daemon/main.c)) $(DAEMON) $(CORE) $(COMMON)
	$(LINK) $(LIBS)
$(BUILD)/mroce: $(call objects,cli/main.c) $(CLI) $(DAEMON) $(COLL) $(CLIENT) $(CORE) $(COMMON)
	$(LINK) $(LIBS)
$(EXAMPLES): %: %.o $(CLIENT)
	$(LINK) $(LIBS)
$(TRAINING): $(call objects,$(TRAIN_SRC)) $(COLL) $(CLIENT)
	$(LINK) $(LIBS)
$(BUILD)/examples/training/network.o: OPT += -O3
$(UNIT_LOW): %: %.o $(call objects,$(UNIT_HELP)) $(CORE) $(COMMON)
	$(LINK) $(TEST_LIBS)
$(UNIT_HIGH): %: %.o $(call objects,$(UNIT_HELP)) $(CLI) $(DAEMON) $(COLL) $(CLIENT) $(CORE) $(COMMON)
	$(LINK) $(TEST_LIBS)
$(BUILD)/tests/sim/sim: $(call objects,$(SIM_SRC)) $(CORE) $(COMMON)
	$(LINK) $(TEST_LIBS)
$(BUILD)/tests/bpf/bpf_tests: $(call objects,$(BPFT_SRC)) $(CORE) $(COMMON)
	$(LINK) $(TEST_LIBS)
$(NET): %: %.o $(DAEMON) $(COLL) $(CLIENT) $(CORE) $(COMMON)
	$(LINK) $(LIBS)
$(OPS): %: %.o
	$(LINK) -lseccomp
$(FUZZ): %: %.o $(call objects,$(FUZZ_HELP)) $(DAEMON) $(CLIENT) $(CORE) $(COMMON)
	$(LINK) -fsanitize=fuzzer $(LIBS)
$(patsubst %.c,$(BUILD)/%,$(FABRIC_SRC)): %: %.o $(call objects,$(FABRIC_HELP)) $(CLIENT)
	$(LINK) $(LIBS)

$(BUILD)/man/%: docs/man/%.scd | tools
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D) && scdoc < $< > $@

# Skeletons must be there before the first compilation; afterwards the .d files know the details.
$(call objects,daemon/main.c $(DAEMON_SRC) $(CLI_SRC) $(BPFT_SRC) $(NET_SRC)) \
	$(filter-out $(UNIT_LOW:=.o),$(UNIT:=.o)) $(FUZZ:=.o): | $(SKELS)
$(call objects,$(BPFT_SRC)): | $(call skeletons,$(TESTBPF_SRC))
$(call objects,$(FABRIC_ALL)): | $(call skeletons,$(FABBPF_SRC))

# --- installation --------------------------------------------------------------------------------
# mode:source:destination, read by both install and uninstall.
COMPLETION = $(PREFIX)/share/bash-completion/completions
UNITS      = $(BUILD)/mroced.service $(BUILD)/mroced@.service
DOCS       = README.md $(wildcard docs/*.md) tools/wireshark/mroce.lua contrib/grafana/mroce.json \
	contrib/prometheus/mroce-alerts.yml
INSTALLED  = \
	755:$(BUILD)/mroce:$(BINDIR)/mroce \
	755:$(BUILD)/mroced:$(SBINDIR)/mroced \
	644:$(SHARED):$(LIBDIR)/$(SOFILE) \
	644:$(CLIENT):$(LIBDIR)/libmroce.a \
	644:$(BUILD)/libmroce.pc:$(LIBDIR)/pkgconfig/libmroce.pc \
	644:include/mroce.h:$(INCLUDEDIR)/mroce.h \
	644:$(COLL_SHARED):$(LIBDIR)/$(COLL_SOFILE) \
	644:$(COLL):$(LIBDIR)/libmroce-collective.a \
	644:$(BUILD)/libmroce-collective.pc:$(LIBDIR)/pkgconfig/libmroce-collective.pc \
	644:include/mroce_collective.h:$(INCLUDEDIR)/mroce_collective.h \
	644:cli/mroce.bash-completion:$(COMPLETION)/mroce \
	$(foreach f,$(BPF_OBJ),644:$(f):$(BPFDIR)/$(notdir $(f))) \
	$(foreach f,$(MAN),644:$(f):$(MANDIR)/man$(subst .,,$(suffix $(f)))/$(notdir $(f))) \
	$(foreach f,$(UNITS),644:$(f):$(UNITDIR)/$(notdir $(f))) \
	$(foreach f,$(DOCS),644:$(f):$(DOCDIR)/$(notdir $(f))) \
	644:daemon/mroced.conf:$(DOCDIR)/mroced.conf
SONAMES    = $(LIBDIR)/$(SONAME) $(LIBDIR)/libmroce.so \
	$(LIBDIR)/$(COLL_SONAME) $(LIBDIR)/libmroce-collective.so
OWN_DIRS   = $(BPFDIR) $(DOCDIR) $(CONFDIR)
CONFIG     = $(DESTDIR)$(CONFDIR)/mroced.conf
each_installed = for f in $(INSTALLED); do IFS=: read -r mode src dest <<< "$$f"

install uninstall: SHELL := /bin/bash
# A configuration that is there stays as it is; the shipped one lies in DOCDIR as well.
install: all $(UNITS) $(BUILD)/libmroce.pc $(BUILD)/libmroce-collective.pc
	@set -e; $(each_installed); install -Dm$$mode "$$src" "$(DESTDIR)$$dest"; echo "  $$dest"; done
	@cd "$(DESTDIR)$(LIBDIR)" && ln -sf $(SOFILE) $(SONAME) && ln -sf $(SONAME) libmroce.so && \
		ln -sf $(COLL_SOFILE) $(COLL_SONAME) && ln -sf $(COLL_SONAME) libmroce-collective.so
	@if [ -e "$(CONFIG)" ]; then echo "  $(CONFDIR)/mroced.conf is there and stays as it is"; \
		else install -Dm644 daemon/mroced.conf "$(CONFIG)"; echo "  $(CONFDIR)/mroced.conf"; fi
	@$(after_install); $(GIVE_BACK)

# The configuration goes if it is as it was shipped.
uninstall:
	@if [ -e "$(CONFIG)" ] && ! cmp -s daemon/mroced.conf "$(CONFIG)"; then \
		echo "$(CONFDIR)/mroced.conf was changed and stays: remove it by hand"; \
		else rm -fv "$(CONFIG)"; fi
	@$(each_installed); rm -fv "$(DESTDIR)$$dest"; done
	@rm -fv $(addprefix $(DESTDIR),$(SONAMES))
	@for d in $(OWN_DIRS); do if [ -d "$(DESTDIR)$$d" ]; then \
		rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$d"; fi; done
	@$(after_install)

# Only where this machine itself was changed.
after_install = $(if $(DESTDIR),true,if [ "$$(id -u)" = 0 ]; then ldconfig; fi)

fill_in = mkdir -p $(@D) && sed $(1) -e 's|@SBINDIR@|$(SBINDIR)|g; s|@LIBDIR@|$(LIBDIR)|g' \
	-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g; s|@PREFIX@|$(PREFIX)|g; s|@VERSION@|$(VERSION)|g' $< > $@
$(BUILD)/libmroce.pc: lib/client/libmroce.pc.in FORCE
	@$(call fill_in,)
$(BUILD)/libmroce-collective.pc: lib/collective/libmroce-collective.pc.in FORCE
	@$(call fill_in,)
# One text for both units: lines for instances only begin with @INSTANCE@.
$(BUILD)/mroced.service: daemon/mroced.service FORCE
	@$(call fill_in,-e '/^@INSTANCE@/d; s|@NAME@|mroced|g; s|@FOLDER@|mroce|g; s|@WHERE@||g')
$(BUILD)/mroced@.service: daemon/mroced.service FORCE
	@$(call fill_in,-e 's|^@INSTANCE@||; s|@NAME@|%i|g; s|@FOLDER@|mroce/%i|g; s|@WHERE@| in network namespace %i|g')

# --- Debian package ------------------------------------------------------------------------------
.PHONY: deb
deb:
	@scripts/deps
	dpkg-buildpackage -us -uc -b; $(GIVE_BACK)

# --- lint ----------------------------------------------------------------------------------------
CODE_DIRS = $(wildcard bpf cli daemon examples include lib tests)
C_SRC     = $(COMMON_SRC) $(CORE_SRC) $(CLIENT_SRC) $(COLL_SRC) $(DAEMON_SRC) $(wildcard daemon/main.c) $(CLI_SRC)
# Brackets keep the pattern from finding itself.
WORDS     = \<TOD[O]\>|\<FIXM[E]\>|\<XX[X]\>|\<HAC[K]\>|/wor[k]/|shared/desig[n]

# Tables that a script generates keep the shape it gives them.
FORMATTED = find $(CODE_DIRS) -name '*.[ch]' ! -name '*_tables.h'

format:
	@scripts/deps --check --lint
	@$(FORMATTED) -print0 | xargs -0r clang-format -i

.PHONY: lint-layout lint-c lint-shell lint-words
lint: lint-layout lint-c lint-shell lint-words

lint-layout:
	@scripts/deps --check --lint
	@bad=0; for f in $$($(FORMATTED)); do clang-format "$$f" | cmp -s - "$$f" || \
		{ echo "$$f: not formatted, 'make format' mends it"; bad=1; }; done; exit $$bad

lint-c:
	@$(if $(strip $(C_SRC)),cppcheck -q --std=c11 --enable=warning$(,)performance$(,)portability \
		--inline-suppr --error-exitcode=1 -D_GNU_SOURCE \
		--include=/usr/include/$(MULTIARCH)/sys/queue.h \
		--include=/usr/include/jansson.h \
		--include=/usr/include/bpf/libbpf_common.h -Iinclude -Ilib -I. $(C_SRC))

lint-shell:
	@grep -rlIE '^#!.*\<(ba)?sh\>' .ci scripts tests | xargs -r shellcheck -x -S warning

lint-words:
	@! grep -rnIE '$(WORDS)' --exclude-dir=.git --exclude=.git --exclude-dir='build*' --exclude-dir=LICENSES . \
		|| { echo 'lint: the words above must not stay in the tree'; exit 1; }

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
