// SPDX-License-Identifier: Apache-2.0
// A layer before the real OpenCL library that does what a script says: the environment variable CL_SCRIPT, or
// cl_layer_script(text) at any time, holds settings with ';' between:
//   platforms=0          no driver is installed          devices=0     no device is there
//   version=OpenCL 1.1   what the device says            driver=9.9    likewise
//   fail=CreateBuffer:-4:2   this call returns -4 from its second time on (1 where no number stands)
//   slow=20000           microseconds that handing over a kernel or a recording takes
//   log=...              what the compiler says
//   empty=2              in the first two binaries that are taken the file program.bc is empty, as where another
//                        process was writing it (PoCL)
//   whole=1              buffers stay when they are released, and are written as a whole: what Oclgrind knows of what
//   was
//                        written is of the last buffer of that number, and as long as what was written last
//   without=cl_khr_command_buffer,...   extensions that the device does not have, or
//   with=cl_qcom_recordable_queues,...   that it has; Qualcomm's recordings are played by the layer itself
//   hidden=clEndRecordingQCOM           a function that the driver does not have
//   with=cl_khr_external_memory_dma_buf  descriptors are mapped by the layer, which copies the pages and checks the
//   order of calls recording_version=8392704            what the device says as the version of cl_khr_command_buffer
//   images=0                             the device has no images; images=4: none wider or higher than that
// The environment variable CL_REAL names the library behind it (libOpenCL.so.1).
// cl_layer_count("BuildProgram") says how often a call was made since the script was set; "sources": programs that
// were made from source; "objects": handles that are not released yet;
// "parts out of order": sub-buffers, since the process began, that were released before a later one that overlaps
// them, which ends NVIDIA's driver;
// "acquired": dma-bufs that the device has now; "KernelsAcquired": kernels that were handed over while it had one.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define QR_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Part {
  cl_mem of;
  size_t at, size;
  long number;  // a later one has a higher one
};
struct State {
  std::mutex mutex;
  std::string script = std::getenv("CL_SCRIPT") ? std::getenv("CL_SCRIPT") : "";
  std::map<std::string, long> counts;
  std::map<cl_mem, Part> parts;  // sub-buffers
  std::atomic<long> objects{0}, out_of_order{0};
};
State &state() {
  static State *const made = new State;  // outlives every thread of a driver
  return *made;
}

template <class F>
F real(F, const char *name) {
  static const char *const named = std::getenv("CL_REAL");
  static void *const library = dlopen(named ? named : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}
#define QR_REAL(name) real(static_cast<decltype(&cl##name)>(nullptr), "cl" #name)

std::string setting(const std::string &key) {
  const std::lock_guard lock(state().mutex);
  std::string found;
  for (std::size_t at = 0; at < state().script.size();) {
    const std::size_t end = std::min(state().script.find(';', at), state().script.size());
    const std::string word = state().script.substr(at, end - at);
    if (word.compare(0, key.size() + 1, key + "=") == 0) found = word.substr(key.size() + 1);
    at = end + 1;
  }
  return found;
}

// Counts a call, and gives the error that it is to have.
cl_int meet(const char *name) {
  long count;
  {
    const std::lock_guard lock(state().mutex);
    count = ++state().counts[name];
  }
  const std::string fail = setting("fail");
  const std::size_t colon = fail.find(':');
  if (colon == std::string::npos || fail.substr(0, colon) != name) return CL_SUCCESS;
  const std::size_t second = fail.find(':', colon + 1);
  const long from = second == std::string::npos ? 1 : std::atol(fail.c_str() + second + 1);
  return count >= from ? std::atoi(fail.c_str() + colon + 1) : CL_SUCCESS;
}

// Counts handing over, and takes as long as the script says.
cl_int hand_over(const char *name) {
  if (const cl_int error = meet(name)) return error;
  if (const std::string slow = setting("slow"); !slow.empty())
    std::this_thread::sleep_for(std::chrono::microseconds(std::atol(slow.c_str())));
  return CL_SUCCESS;
}

// Qualcomm's, as the layer plays them: kernel objects keep the arguments that they had, so what is recorded must be
// played before others are set.
struct Recorded {
  cl_kernel kernel;
  size_t global[3], local[3];
};
struct Recording {
  cl_command_queue queue;
  bool ended = false;
  std::vector<Recorded> kernels;
};
constexpr cl_command_queue_properties kRecordable = cl_command_queue_properties{1} << 30;
std::map<cl_command_queue, Recording *> &recordable() {
  static auto *const made = new std::map<cl_command_queue, Recording *>;
  return *made;
}

// Dma-bufs that were imported.
struct Imported {
  void *base;
  size_t size;
  bool acquired;
};
std::map<cl_mem, Imported> &imported() {
  static auto *const made = new std::map<cl_mem, Imported>;
  return *made;
}
long acquired() {
  const std::lock_guard lock(state().mutex);
  return std::count_if(imported().begin(), imported().end(), [](const auto &entry) { return entry.second.acquired; });
}

template <class T>
T made(T object) {
  if (object) ++state().objects;
  return object;
}

}  // namespace

QR_EXPORT void cl_layer_script(const char *text) {
  const std::lock_guard lock(state().mutex);
  state().script = text;
  state().counts.clear();
}
QR_EXPORT long cl_layer_count(const char *name) {
  if (std::strcmp(name, "objects") == 0) return state().objects;
  if (std::strcmp(name, "acquired") == 0) return acquired();
  if (std::strcmp(name, "parts out of order") == 0) return state().out_of_order;
  const std::lock_guard lock(state().mutex);
  return state().counts[name];
}

QR_EXPORT cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *ids, cl_uint *count) {
  if (setting("platforms") == "0") {
    if (count) *count = 0;
    return -1001;
  }
  return QR_REAL(GetPlatformIDs)(n, ids, count);
}
QR_EXPORT cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t size, void *out, size_t *needed) {
  return QR_REAL(GetPlatformInfo)(p, what, size, out, needed);
}
QR_EXPORT cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *ids, cl_uint *count) {
  if (setting("devices") == "0") return CL_DEVICE_NOT_FOUND;
  return QR_REAL(GetDeviceIDs)(p, type, n, ids, count);
}
namespace {
bool lists(const std::string &list, const std::string &word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}
// The extensions as the script wants them.
std::string extensions_of(cl_device_id d) {
  size_t size = 0;
  (void)QR_REAL(GetDeviceInfo)(d, CL_DEVICE_EXTENSIONS, 0, nullptr, &size);
  std::string all(size, '\0'), kept;
  (void)QR_REAL(GetDeviceInfo)(d, CL_DEVICE_EXTENSIONS, size, all.data(), nullptr);
  const std::string without = setting("without"), with = setting("with");
  all = all.c_str();
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(' ', at), all.size());
    const std::string word = all.substr(at, end - at);
    if (!word.empty() && !lists(without, word)) kept += word + " ";
    at = end + 1;
  }
  for (size_t at = 0; at < with.size();) {
    const size_t end = std::min(with.find(',', at), with.size());
    kept += with.substr(at, end - at) + " ";
    at = end + 1;
  }
  return kept;
}
}  // namespace

QR_EXPORT cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t size, void *out, size_t *needed) {
  constexpr cl_device_info kWithVersion = 0x1060, kHandleTypes = 0x204F;
  if (what == kHandleTypes && lists(setting("with"), "cl_khr_external_memory_dma_buf")) {
    const cl_uint types[] = {0x2060, 0x2067};
    if (needed) *needed = sizeof types;
    if (out && size >= sizeof types) std::memcpy(out, types, sizeof types);
    return CL_SUCCESS;
  }
  if (const std::string version = setting("recording_version"); what == kWithVersion && !version.empty()) {
    struct Row {
      cl_uint version;
      char name[64];
    } row{static_cast<cl_uint>(std::atol(version.c_str())), "cl_khr_command_buffer"};
    if (needed) *needed = sizeof row;
    if (out && size >= sizeof row) std::memcpy(out, &row, sizeof row);
    return CL_SUCCESS;
  }
  if (const std::string images = setting("images"); !images.empty()) {
    const cl_bool none = CL_FALSE;
    const size_t limit = static_cast<size_t>(std::atol(images.c_str()));
    const bool is_limit = what == CL_DEVICE_IMAGE2D_MAX_WIDTH || what == CL_DEVICE_IMAGE2D_MAX_HEIGHT;
    if (what == CL_DEVICE_IMAGE_SUPPORT && limit == 0 && out && size >= sizeof none) {
      std::memcpy(out, &none, sizeof none);
      return CL_SUCCESS;
    }
    if (is_limit && out && size >= sizeof limit) {
      std::memcpy(out, &limit, sizeof limit);
      return CL_SUCCESS;
    }
  }
  const std::string told = what == CL_DEVICE_VERSION   ? setting("version")
                           : what == CL_DRIVER_VERSION ? setting("driver")
                           : what == CL_DEVICE_EXTENSIONS && (!setting("without").empty() || !setting("with").empty())
                               ? extensions_of(d)
                               : "";
  if (told.empty()) return QR_REAL(GetDeviceInfo)(d, what, size, out, needed);
  if (needed) *needed = told.size() + 1;
  if (out && size > told.size()) std::memcpy(out, told.c_str(), told.size() + 1);
  return CL_SUCCESS;
}
QR_EXPORT cl_context clCreateContext(const cl_context_properties *p, cl_uint n, const cl_device_id *d,
                                     void(CL_CALLBACK *f)(const char *, const void *, size_t, void *), void *u,
                                     cl_int *error) {
  if ((*error = meet("CreateContext")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateContext)(p, n, d, f, u, error));
}
QR_EXPORT cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_command_queue_properties p,
                                                cl_int *error) {
  if ((*error = meet("CreateCommandQueue")) != CL_SUCCESS) return nullptr;
  if (!(p & kRecordable)) return made(QR_REAL(CreateCommandQueue)(c, d, p, error));
  if (p != kRecordable || setting("with").find("cl_qcom_recordable_queues") == std::string::npos) {
    *error = CL_INVALID_QUEUE_PROPERTIES;
    return nullptr;
  }
  const cl_command_queue queue = made(QR_REAL(CreateCommandQueue)(c, d, 0, error));
  const std::lock_guard lock(state().mutex);
  if (queue) recordable()[queue] = nullptr;
  return queue;
}
QR_EXPORT cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *error) {
  if ((*error = meet("CreateBuffer")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateBuffer)(c, flags, size, host, error));
}
QR_EXPORT cl_mem clCreateImage(cl_context c, cl_mem_flags flags, const cl_image_format *texel, const cl_image_desc *how,
                               void *host, cl_int *error) {
  if ((*error = meet("CreateImage")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateImage)(c, flags, texel, how, host, error));
}
QR_EXPORT cl_mem clCreateSubBuffer(cl_mem m, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                                   cl_int *error) {
  if ((*error = meet("CreateSubBuffer")) != CL_SUCCESS) return nullptr;
  const cl_mem part = made(QR_REAL(CreateSubBuffer)(m, flags, type, region, error));
  const std::lock_guard lock(state().mutex);
  const auto *const where = static_cast<const cl_buffer_region *>(region);
  if (part) state().parts[part] = {m, where->origin, where->size, ++state().counts["parts"]};
  return part;
}
QR_EXPORT cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char **texts, const size_t *sizes,
                                               cl_int *error) {
  if ((*error = meet("sources")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateProgramWithSource)(c, n, texts, sizes, error));
}
QR_EXPORT cl_program clCreateProgramWithBinary(cl_context c, cl_uint n, const cl_device_id *d, const size_t *sizes,
                                               const unsigned char **binaries, cl_int *status, cl_int *error) {
  if ((*error = meet("CreateProgramWithBinary")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateProgramWithBinary)(c, n, d, sizes, binaries, status, error));
}
QR_EXPORT cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *d, const char *options,
                                void(CL_CALLBACK *f)(cl_program, void *), void *u) {
  if (const cl_int error = meet("BuildProgram")) return error;
  return QR_REAL(BuildProgram)(p, n, d, options, f, u);
}
QR_EXPORT cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t size, void *out, size_t *needed) {
  const cl_int done = QR_REAL(GetProgramInfo)(p, what, size, out, needed);
  if (done != CL_SUCCESS || what != CL_PROGRAM_BINARIES || !out) return done;
  (void)meet("binaries");
  if (cl_layer_count("binaries") > std::atol(setting("empty").c_str())) return done;
  const std::string file = "/program.bc";
  auto *const begin = *static_cast<unsigned char **>(out);
  auto *const name = std::search(begin, begin + 4096, file.begin(), file.end());
  if (name != begin + 4096) std::memset(name + file.size(), 0, sizeof(cl_uint));  // its length
  return done;
}
QR_EXPORT cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *out,
                                       size_t *needed) {
  const std::string log = setting("log");
  if (log.empty()) return QR_REAL(GetProgramBuildInfo)(p, d, what, size, out, needed);
  if (needed) *needed = log.size() + 1;
  if (out && size > log.size()) std::memcpy(out, log.c_str(), log.size() + 1);
  return CL_SUCCESS;
}
QR_EXPORT cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *error) {
  if ((*error = meet("CreateKernel")) != CL_SUCCESS) return nullptr;
  return made(QR_REAL(CreateKernel)(p, name, error));
}
QR_EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t size,
                                          void *out, size_t *needed) {
  return QR_REAL(GetKernelWorkGroupInfo)(k, d, what, size, out, needed);
}
QR_EXPORT cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t size, const void *value) {
  return QR_REAL(SetKernelArg)(k, i, size, value);
}

// ---- recordings -----------------------------------------------------------------------------------

namespace {

Recording *CL_API_CALL new_recording(cl_command_queue q, cl_int *error) {
  if ((*error = meet("NewRecordingQCOM")) != CL_SUCCESS) return nullptr;
  const std::lock_guard lock(state().mutex);
  const auto found = recordable().find(q);
  if (found == recordable().end() || found->second) {
    *error = CL_INVALID_COMMAND_QUEUE;
    return nullptr;
  }
  ++state().objects;
  return found->second = new Recording{q, false, {}};
}
cl_int CL_API_CALL end_recording(Recording *recording) {
  if (const cl_int error = meet("EndRecordingQCOM")) return error;
  const std::lock_guard lock(state().mutex);
  recordable()[recording->queue] = nullptr;
  recording->ended = true;
  return CL_SUCCESS;
}
cl_int CL_API_CALL release_recording(Recording *recording) {
  --state().objects;
  {
    const std::lock_guard lock(state().mutex);
    if (!recording->ended) recordable()[recording->queue] = nullptr;
  }
  delete recording;
  return CL_SUCCESS;
}
cl_int CL_API_CALL enqueue_recording(cl_command_queue q, Recording *recording, size_t arguments, const void *,
                                     size_t offsets, const void *, size_t sizes, const void *, size_t groups,
                                     const void *, cl_uint n, const cl_event *wait, cl_event *event) {
  if (const cl_int error = meet("EnqueueRecordingQCOM")) return error;
  if (!recording->ended || arguments || offsets || sizes || groups) return CL_INVALID_VALUE;
  for (size_t i = 0; i < recording->kernels.size(); ++i) {
    const Recorded &one = recording->kernels[i];
    const bool is_last = i + 1 == recording->kernels.size();
    if (const cl_int error = QR_REAL(EnqueueNDRangeKernel)(q, one.kernel, 3, nullptr, one.global, one.local, i ? 0 : n,
                                                           i ? nullptr : wait, is_last ? event : nullptr))
      return error;
  }
  if (event) ++state().objects;
  return CL_SUCCESS;
}

// The driver's own command buffers, counted.
using Buffer = struct BufferTag *;
template <class F>
F behind(const char *name) {
  cl_platform_id platform = nullptr;
  (void)QR_REAL(GetPlatformIDs)(1, &platform, nullptr);
  return reinterpret_cast<F>(QR_REAL(GetExtensionFunctionAddressForPlatform)(platform, name));
}
Buffer CL_API_CALL create_buffer(cl_uint n, const cl_command_queue *queues, const cl_ulong *how, cl_int *error) {
  if ((*error = meet("CreateCommandBufferKHR")) != CL_SUCCESS) return nullptr;
  return made(behind<decltype(&create_buffer)>("clCreateCommandBufferKHR")(n, queues, how, error));
}
cl_int CL_API_CALL record_kernel(Buffer b, cl_command_queue q, const cl_ulong *how, cl_kernel k, cl_uint dims,
                                 const size_t *offset, const size_t *global, const size_t *local, cl_uint n,
                                 const cl_uint *wait, cl_uint *point, void **handle) {
  if (const cl_int error = meet("CommandNDRangeKernelKHR")) return error;
  return behind<decltype(&record_kernel)>("clCommandNDRangeKernelKHR")(b, q, how, k, dims, offset, global, local, n,
                                                                       wait, point, handle);
}
cl_int CL_API_CALL finalize_buffer(Buffer b) {
  if (const cl_int error = meet("FinalizeCommandBufferKHR")) return error;
  return behind<decltype(&finalize_buffer)>("clFinalizeCommandBufferKHR")(b);
}
cl_int CL_API_CALL enqueue_buffer(cl_uint n, cl_command_queue *queues, Buffer b, cl_uint waits, const cl_event *wait,
                                  cl_event *event) {
  if (const cl_int error = hand_over("EnqueueCommandBufferKHR")) return error;
  const cl_int done = behind<decltype(&enqueue_buffer)>("clEnqueueCommandBufferKHR")(n, queues, b, waits, wait, event);
  if (event && done == CL_SUCCESS) ++state().objects;
  return done;
}
cl_int CL_API_CALL release_buffer(Buffer b) {
  --state().objects;
  return behind<decltype(&release_buffer)>("clReleaseCommandBufferKHR")(b);
}

}  // namespace

// ---- dma-bufs ---------------------------------------------------------------------------------------

namespace {

cl_mem CL_API_CALL create_with_properties(cl_context c, const cl_ulong *how, cl_mem_flags flags, size_t size,
                                          void *host, cl_int *error) {
  constexpr cl_ulong kDmaBuf = 0x2067;
  if ((*error = meet("CreateBufferWithProperties")) != CL_SUCCESS) return nullptr;
  *error = CL_INVALID_VALUE;
  if (!how || how[0] != kDmaBuf || how[2] != 0 || host || flags != CL_MEM_READ_WRITE) return nullptr;
  void *const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(how[1]), 0);
  if (base == MAP_FAILED) return nullptr;
  const cl_mem memory = made(QR_REAL(CreateBuffer)(c, flags, size, nullptr, error));
  const std::lock_guard lock(state().mutex);
  imported()[memory] = {base, size, false};
  return memory;
}
// The pages are copied: what the device sees of a descriptor, it sees between the two calls.
cl_int move(const char *name, bool to_device, cl_command_queue q, cl_uint n, const cl_mem *memories) {
  if (const cl_int error = meet(name)) return error;
  const std::lock_guard lock(state().mutex);
  for (cl_uint i = 0; i < n; ++i) {
    const auto found = imported().find(memories[i]);
    if (found == imported().end()) return CL_INVALID_MEM_OBJECT;
    if (found->second.acquired == to_device) return CL_INVALID_OPERATION;
    found->second.acquired = to_device;
    const Imported &one = found->second;
    const cl_int copied =
        to_device ? QR_REAL(EnqueueWriteBuffer)(q, found->first, CL_TRUE, 0, one.size, one.base, 0, nullptr, nullptr)
                  : QR_REAL(EnqueueReadBuffer)(q, found->first, CL_TRUE, 0, one.size, one.base, 0, nullptr, nullptr);
    if (copied != CL_SUCCESS) return copied;
  }
  return CL_SUCCESS;
}
cl_int CL_API_CALL acquire(cl_command_queue q, cl_uint n, const cl_mem *memories, cl_uint, const cl_event *,
                           cl_event *) {
  return move("EnqueueAcquireExternalMemObjectsKHR", true, q, n, memories);
}
cl_int CL_API_CALL release(cl_command_queue q, cl_uint n, const cl_mem *memories, cl_uint, const cl_event *,
                           cl_event *) {
  return move("EnqueueReleaseExternalMemObjectsKHR", false, q, n, memories);
}

}  // namespace

QR_EXPORT void *clGetExtensionFunctionAddressForPlatform(cl_platform_id p, const char *name) {
  const std::pair<const char *, void *> ours[] = {
      {"clNewRecordingQCOM", reinterpret_cast<void *>(new_recording)},
      {"clEndRecordingQCOM", reinterpret_cast<void *>(end_recording)},
      {"clReleaseRecordingQCOM", reinterpret_cast<void *>(release_recording)},
      {"clEnqueueRecordingQCOM", reinterpret_cast<void *>(enqueue_recording)},
      {"clCreateCommandBufferKHR", reinterpret_cast<void *>(create_buffer)},
      {"clCommandNDRangeKernelKHR", reinterpret_cast<void *>(record_kernel)},
      {"clFinalizeCommandBufferKHR", reinterpret_cast<void *>(finalize_buffer)},
      {"clEnqueueCommandBufferKHR", reinterpret_cast<void *>(enqueue_buffer)},
      {"clReleaseCommandBufferKHR", reinterpret_cast<void *>(release_buffer)},
      {"clCreateBufferWithProperties", reinterpret_cast<void *>(create_with_properties)},
      {"clEnqueueAcquireExternalMemObjectsKHR", reinterpret_cast<void *>(acquire)},
      {"clEnqueueReleaseExternalMemObjectsKHR", reinterpret_cast<void *>(release)}};
  if (setting("hidden") == name) return nullptr;
  for (const auto &[known, function] : ours)
    if (std::strcmp(name, known) == 0) return function;
  return QR_REAL(GetExtensionFunctionAddressForPlatform)(p, name);
}

QR_EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset,
                                        const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                        cl_event *event) {
  if (const cl_int error = hand_over("EnqueueNDRangeKernel")) return error;
  if (acquired()) (void)meet("KernelsAcquired");
  {
    const std::lock_guard lock(state().mutex);
    if (const auto found = recordable().find(q); found != recordable().end()) {
      if (!found->second || dims != 3 || n || event) return CL_INVALID_OPERATION;
      Recorded &one = found->second->kernels.emplace_back();
      one.kernel = k;
      std::copy_n(global, 3, one.global), std::copy_n(local, 3, one.local);
      return CL_SUCCESS;
    }
  }
  const cl_int done = QR_REAL(EnqueueNDRangeKernel)(q, k, dims, offset, global, local, n, wait, event);
  if (event && done == CL_SUCCESS) ++state().objects;
  return done;
}
QR_EXPORT cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t size, void *to,
                                     cl_uint n, const cl_event *wait, cl_event *event) {
  if (const cl_int error = meet("EnqueueReadBuffer")) return error;
  return QR_REAL(EnqueueReadBuffer)(q, m, b, at, size, to, n, wait, event);
}
static cl_int write_whole(cl_command_queue q, cl_mem m, size_t at, size_t size, const void *from) {
  {
    const std::lock_guard lock(state().mutex);
    if (const auto found = state().parts.find(m); found != state().parts.end())
      m = found->second.of, at += found->second.at;
  }
  size_t bytes = 0;
  cl_int error = QR_REAL(GetMemObjectInfo)(m, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
  std::string all(bytes, '\0');
  if (!error) error = QR_REAL(EnqueueReadBuffer)(q, m, CL_TRUE, 0, bytes, all.data(), 0, nullptr, nullptr);
  if (error) return error;
  std::memcpy(all.data() + at, from, size);
  return QR_REAL(EnqueueWriteBuffer)(q, m, CL_TRUE, 0, bytes, all.data(), 0, nullptr, nullptr);
}
QR_EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t size, const void *from,
                                      cl_uint n, const cl_event *wait, cl_event *event) {
  if (const cl_int error = meet("EnqueueWriteBuffer")) return error;
  if (setting("whole") == "1") return write_whole(q, m, at, size, from);
  return QR_REAL(EnqueueWriteBuffer)(q, m, b, at, size, from, n, wait, event);
}
QR_EXPORT cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b, size_t size,
                                     cl_uint n, const cl_event *wait, cl_event *event) {
  if (const cl_int error = meet("EnqueueCopyBuffer")) return error;
  return QR_REAL(EnqueueCopyBuffer)(q, from, to, a, b, size, n, wait, event);
}
QR_EXPORT void *clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags flags, size_t at, size_t size,
                                   cl_uint n, const cl_event *wait, cl_event *event, cl_int *error) {
  if ((*error = meet("EnqueueMapBuffer")) != CL_SUCCESS) return nullptr;
  return QR_REAL(EnqueueMapBuffer)(q, m, b, flags, at, size, n, wait, event, error);
}
QR_EXPORT cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event) {
  if (const cl_int error = meet("EnqueueMarkerWithWaitList")) return error;
  const cl_int done = QR_REAL(EnqueueMarkerWithWaitList)(q, n, wait, event);
  if (event && done == CL_SUCCESS) ++state().objects;
  return done;
}
QR_EXPORT cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem m, void *p, cl_uint n, const cl_event *wait,
                                         cl_event *event) {
  return QR_REAL(EnqueueUnmapMemObject)(q, m, p, n, wait, event);
}
QR_EXPORT cl_int clWaitForEvents(cl_uint n, const cl_event *events) {
  if (const cl_int error = meet("WaitForEvents")) return error;
  return QR_REAL(WaitForEvents)(n, events);
}
QR_EXPORT cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t size, void *out, size_t *needed) {
  return QR_REAL(GetEventInfo)(e, what, size, out, needed);
}
QR_EXPORT cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t size, void *out, size_t *needed) {
  return QR_REAL(GetEventProfilingInfo)(e, what, size, out, needed);
}
QR_EXPORT cl_int clFlush(cl_command_queue q) { return QR_REAL(Flush)(q); }
QR_EXPORT cl_int clFinish(cl_command_queue q) {
  const cl_int error = meet("Finish"), done = QR_REAL(Finish)(q);
  return error ? error : done;
}

#define QR_RELEASE(name, type)             \
  QR_EXPORT cl_int cl##name(type object) { \
    --state().objects;                     \
    return QR_REAL(name)(object);          \
  }
QR_RELEASE(ReleaseContext, cl_context)
QR_EXPORT cl_int clReleaseCommandQueue(cl_command_queue object) {
  --state().objects;
  {
    const std::lock_guard lock(state().mutex);
    recordable().erase(object);
  }
  return QR_REAL(ReleaseCommandQueue)(object);
}
QR_EXPORT cl_int clRetainMemObject(cl_mem object) {
  ++state().objects;
  return QR_REAL(RetainMemObject)(object);
}
QR_RELEASE(ReleaseProgram, cl_program)
QR_RELEASE(ReleaseKernel, cl_kernel)
QR_RELEASE(ReleaseEvent, cl_event)
QR_EXPORT cl_int clReleaseMemObject(cl_mem object) {
  --state().objects;
  if (setting("whole") == "1") return CL_SUCCESS;
  cl_uint holders = 0;  // how many hold it still
  if (QR_REAL(GetMemObjectInfo)(object, CL_MEM_REFERENCE_COUNT, sizeof holders, &holders, nullptr) == CL_SUCCESS &&
      holders == 1) {
    const std::lock_guard lock(state().mutex);
    if (const auto gone = state().parts.find(object); gone != state().parts.end()) {
      for (const auto &[other, part] : state().parts)
        if (part.of == gone->second.of && part.number > gone->second.number &&
            part.at < gone->second.at + gone->second.size && gone->second.at < part.at + part.size) {
          ++state().out_of_order;
          break;
        }
      state().parts.erase(gone);
    }
    if (const auto found = imported().find(object); found != imported().end()) {
      const cl_int done = QR_REAL(ReleaseMemObject)(object);
      munmap(found->second.base, found->second.size);
      imported().erase(found);
      return done;
    }
  }
  return QR_REAL(ReleaseMemObject)(object);
}
