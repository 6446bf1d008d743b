// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

extern "C" {

qr_status *qr_profile_create(qr_runtime *runtime, qr_profile **out_profile) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_profile);
  return guard(object(runtime), [&]() -> Status {
    *out_profile = handle_of(Ref<Profile>::make(Ref<Runtime>(object(runtime))).give());
    return {};
  });
}

uint64_t qr_profile_event_count(const qr_profile *profile) { return profile ? object(profile)->log().count() : 0; }

uint64_t qr_profile_lost_count(const qr_profile *profile) { return profile ? object(profile)->log().lost() : 0; }

qr_status *qr_profile_event_at(const qr_profile *profile, uint64_t index, qr_profile_event *out_event) {
  QR_RETURN_IF_NULL(profile);
  QR_RETURN_IF_NULL(out_event);
  QR_ENTER_OR_RETURN(scope, object(profile), "profile");
  return guard(object(profile), [&]() -> Status {
    constexpr const char *kAt = "qr_profile_event_at";
    const EventLog &log = object(profile)->log();
    QR_RETURN_IF_ERROR(
        check_struct(kAt, "qr_profile_event", out_event, QR_PROFILE_EVENT_FIRST_SIZE, sizeof(qr_profile_event)));
    qr_profile_event event;
    QR_ASSIGN_OR_RETURN(const bool found, log.at(index, event));
    if (!found) return index_out_of_range(kAt, "index", index, log.count());
    write_struct(event, out_event);
    return {};
  });
}

qr_status *qr_profile_export(const qr_profile *profile, qr_string format, const qr_target *target) {
  QR_RETURN_IF_NULL(profile);
  QR_RETURN_IF_NULL(target);
  QR_ENTER_OR_RETURN(scope, object(profile), "profile");
  return guard(object(profile), [&]() -> Status {
    std::string_view name;
    QR_RETURN_IF_ERROR(read_text("qr_profile_export", "format", format, Empty::Refused, &name));
    if (!EventLog::knows_format(name))
      return Status::error(
          ErrorId::bad_argument,
          quarry::format("qr_profile_export: format is \"%s\", expected chrome or csv", printable(name)));
    qr_target to = QR_TARGET_INIT;
    QR_RETURN_IF_ERROR(read_target("qr_profile_export", target, to));
    QR_ASSIGN_OR_RETURN(const String text, object(profile)->log().text(name));
    TargetWriter out("qr_profile_export", to, "profile", NewFile::Outlasts::Process);
    QR_RETURN_IF_ERROR(out.begin(out.name(), text.size(), 0));
    return out.finish(out.write(text.data(), text.size()));
  });
}

void qr_profile_clear(qr_profile *profile) {
  if (profile) object(profile)->log().clear();
}

void qr_profile_destroy(qr_profile *profile) {
  if (profile) object(profile)->release();
}

}  // extern "C"
