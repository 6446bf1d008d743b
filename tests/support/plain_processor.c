/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before a program (LD_PRELOAD), this has the processor say that it has AVX2 and nothing newer: its CPUID
   faults, and the answer is given without the bits of AVX-512, AVX-VNNI and AMX. For what runs otherwise there and is
   not ours to build for it: Qualcomm's emulator, ONNX Runtime. Linux on x86-64 whose CPUID can fault
   (`cpuid_fault` in /proc/cpuinfo); elsewhere it says so and leaves all as it is. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SET_CPUID 0x1012 /* ARCH_SET_CPUID of arch_prctl; older headers lack it */

static int let_cpuid(int runs) { return (int)syscall(SYS_arch_prctl, SET_CPUID, runs); }

/* Leaf 7 in its two parts, and the states that the system keeps (leaf 13). */
static void leave_out(uint32_t leaf, uint32_t part, uint32_t registers[4]) {
  if (leaf == 7 && part == 0) {
    registers[1] &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    registers[2] &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
    registers[3] &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
  } else if (leaf == 7 && part == 1) {
    registers[0] &= ~(1u << 4 | 1u << 5);
    registers[3] &= ~(1u << 4 | 1u << 5 | 1u << 10);
  } else if (leaf == 13 && part == 0) {
    registers[0] &= 7;
  }
}

static void on_fault(int number, siginfo_t *info, void *context) {
  greg_t *const all = ((ucontext_t *)context)->uc_mcontext.gregs;
  const uint8_t *const at = (const uint8_t *)all[REG_RIP];
  const uint32_t leaf = (uint32_t)all[REG_RAX], part = (uint32_t)all[REG_RCX];
  uint32_t r[4] = {leaf, 0, part, 0};
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) { /* another fault: it happens again, and ends the program */
    signal(number, SIG_DFL);
    return;
  }
  let_cpuid(1);
  __asm__ volatile("cpuid" : "+a"(r[0]), "=b"(r[1]), "+c"(r[2]), "=d"(r[3]));
  let_cpuid(0);
  leave_out(leaf, part, r);
  all[REG_RAX] = r[0], all[REG_RBX] = r[1], all[REG_RCX] = r[2], all[REG_RDX] = r[3];
  all[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, NULL) != 0 || let_cpuid(0) != 0)
    fprintf(stderr, "plain_processor: CPUID cannot fault here: the processor shows all that it has\n");
}
