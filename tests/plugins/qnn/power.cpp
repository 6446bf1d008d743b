// SPDX-License-Identifier: Apache-2.0
// Votes for clocks, written down.
#include "tests/plugins/qnn/objects.h"
#include "tests/plugins/qnn/script.h"

namespace standin {
namespace {

std::atomic<std::uint32_t> g_last{0};

Error create_id(std::uint32_t device, std::uint32_t core, std::uint32_t *id) {
  if (const Error error = meet("createPowerConfigId")) return error;
  *id = ++g_last;
  record("createPowerConfigId device=%u core=%u", device, core);
  return 0;
}
Error destroy_id(std::uint32_t) {
  record("destroyPowerConfigId");
  return meet("destroyPowerConfigId");
}
Error set_power(std::uint32_t, const qnn::HtpPowerConfig **list) {
  if (const Error error = meet("setPowerConfig")) return error;
  for (; list && *list; ++list) {
    const qnn::HtpPowerConfig &c = **list;
    const qnn::DcvsV3 &d = c.dcvs;
    if (c.option == 1)
      record("vote dcvs=%u/%u mode=%x sleep_latency=%u/%u sleep_disable=%u/%u bus=%u/%x,%x,%x core=%u/%x,%x,%x",
             d.set_dcvs, d.dcvs, d.mode, d.set_sleep_latency, d.sleep_latency, d.set_sleep_disable, d.sleep_disable,
             d.set_bus, d.bus_min, d.bus_target, d.bus_max, d.set_core, d.core_min, d.core_target, d.core_max);
    else if (c.option == 5)
      record("vote hmx pick_default=%u corners=%x,%x,%x clock=%u", c.hmx.pick_default, c.hmx.vmin, c.hmx.vtarget,
             c.hmx.vmax, c.hmx.clk);
    else record("vote option=%u value=%u", c.option, c.u32);
  }
  return 0;
}
Error set_memory(std::uint32_t, std::uint32_t, const void **) {
  record("setMemoryConfig");
  return meet("setMemoryConfig");
}
Error get_infrastructure(void *const *out) {
  static qnn::HtpInfra infra{0, create_id, destroy_id, set_power, set_memory};
  if (const Error error = meet("deviceGetInfrastructure")) return error;
  *const_cast<void **>(out) = &infra;
  return 0;
}

}  // namespace

void fill_power(qnn::Api &api) { api.deviceGetInfrastructure = get_infrastructure; }

}  // namespace standin
