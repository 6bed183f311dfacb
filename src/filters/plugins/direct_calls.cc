// The contract of an HDF5 filter function: it gets *buf with nbytes valid bytes in *buf_size, may replace *buf by
// another allocation, and returns the number of valid bytes, or 0 for failure. Some filters confuse *buf_size with
// nbytes, so both are equal here. Some leave *buf null after a failure, and some do not update *buf_size for a new
// *buf.
//
// The memory is libhdf5's (H5allocate_memory), which is plain malloc unless libhdf5 was built with memory checking.

#include "filters/plugins/direct_calls.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/worker_process.h"
#include "filters/plugins/netcdf_host.h"
#include "filters/plugins/plugins.h"

namespace codecfs::filters {
namespace {

#ifdef H5_MEMORY_ALLOC_SANITY_CHECK
void* allocate(size_t size) { return H5allocate_memory(size, false); }
void release(void* memory) { H5free_memory(memory); }
size_t room_in(void*, size_t told) { return told; }
#else
void* allocate(size_t size) { return std::malloc(size); }
void release(void* memory) { std::free(memory); }
size_t room_in(void* memory, size_t) { return malloc_usable_size(memory); }
#endif

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

SharedMutex& foreign_calls() {
  static auto& mutex =
      *new SharedMutex(LockRank::plugins_held);  // never destroyed: other threads may decode during static destruction
  return mutex;
}

thread_local bool are_held = false;  // by this thread, in a PluginsHeld

// Some functions read the first parameter even if there are none, so never pass a null pointer.
const unsigned* pointer_to(std::span<const uint32_t> parameters) {
  static constexpr unsigned kNone = 0;
  return parameters.empty() ? &kNone : parameters.data();
}

Result<std::vector<uint32_t>> returned(const std::string& path, size_t count, const unsigned* values) {
  if (count > 0 && values == nullptr) return fail(EINVAL, "{} declares {} parameters, but returns none", path, count);
  return std::vector<uint32_t>(values, values + count);
}

}  // namespace

class DirectCalls::Turn {
 public:
  explicit Turn(const DirectCalls& calls, size_t bytes = 0) {
    if (Mutex* const turn = calls.library_.turn.get(); turn != nullptr && !are_held) {
      others_ = std::shared_lock(foreign_calls());
      own_ = std::unique_lock(*turn);
    }
    if (calls.seconds_ != 0) code_.emplace(calls.library_.path.c_str(), call_seconds(calls.seconds_, bytes));
  }

 private:
  std::shared_lock<SharedMutex> others_;
  std::unique_lock<Mutex> own_;
  std::optional<LibraryCode> code_;  // not while the locks are awaited
};

void FilteredBytes::Release::operator()(void* bytes) const { release(bytes); }

DirectCalls::DirectCalls(PluginLibrary library, unsigned seconds) : library_(std::move(library)), seconds_(seconds) {
  std::optional<LibraryCode> code;
  if (seconds_ != 0) code.emplace(library_.path.c_str(), seconds_);
  for (const NCZ_codec_t& codec : library_.codecs)
    if (codec.NCZ_codec_initialize != nullptr) codec.NCZ_codec_initialize();
}

void DirectCalls::finalize() {
  for (const NCZ_codec_t& codec : library_.codecs)
    if (codec.NCZ_codec_finalize != nullptr) codec.NCZ_codec_finalize();
}

Result<FilteredBytes> DirectCalls::run_filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in,
                                              uint64_t most) {
  const std::string& path = library_.path;
  if (in.empty()) return fail(EIO, "there are no bytes to filter");
  void* memory = allocate(in.size());
  if (memory == nullptr) return fail(ENOMEM, "no memory for {} bytes", in.size());
  std::memcpy(memory, in.data(), in.size());
  size_t capacity = in.size();
  FilteredBytes out;
  {
    const Turn turn_held(*this, in.size());
    out.size = library_.hdf5->filter(flags, parameters.size(), pointer_to(parameters), in.size(), &capacity, &memory);
  }
  out.memory.reset(memory);
  if (out.size == 0) return fail((flags & H5Z_FLAG_REVERSE) != 0 ? EIO : EINVAL, "{} reports a failure", path);
  if (memory == nullptr || out.size > room_in(memory, capacity))
    return fail(EIO, "{} says that it made {} bytes, but gives no room for them", path, out.size);
  if (out.size > most) return fail(EIO, "{} made {} bytes, more than {}", path, out.size, most);
  return out;
}

Result<Buffer> DirectCalls::filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) {
  CODECFS_ASSIGN(const FilteredBytes out, run_filter(flags, parameters, in, most));
  return Buffer::copy_of(out.bytes());
}

Result<const NCZ_codec_t*> DirectCalls::codec_at(size_t index) const {
  if (index >= library_.codecs.size()) return fail(EINVAL, "the library has no codec {}", index);
  return &library_.codecs[index];
}

Result<std::vector<uint32_t>> DirectCalls::parameters_of(size_t codec, const std::string& json) {
  CODECFS_ASSIGN(const NCZ_codec_t* const called, codec_at(codec));
  size_t count = 0;
  unsigned* values = nullptr;
  int status = 0;
  {
    const Turn turn_held(*this);
    status = called->NCZ_codec_to_hdf5(json.c_str(), &count, &values);
  }
  const std::unique_ptr<unsigned, Free> owned(values);
  if (status != 0) return fail(EINVAL, "{} does not understand {} (netCDF's error {})", library_.path, json, status);
  return returned(library_.path, count, values);
}

Result<std::string> DirectCalls::codec_of(size_t codec, std::span<const uint32_t> parameters) {
  CODECFS_ASSIGN(const NCZ_codec_t* const called, codec_at(codec));
  char* text = nullptr;
  int status = 0;
  {
    const Turn turn_held(*this);
    status = called->NCZ_hdf5_to_codec(parameters.size(), pointer_to(parameters), &text);
  }
  const std::unique_ptr<char, Free> owned(text);
  if (status != 0 || text == nullptr)
    return fail(EINVAL, "{} does not understand the parameters (netCDF's error {})", library_.path, status);
  return std::string(text);
}

Result<ModifiedParameters> DirectCalls::modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                            const ChunkShape& chunk) {
  CODECFS_ASSIGN(const NCZ_codec_t* const called, codec_at(codec));
  size_t visible_count = parameters.size();
  auto* visible = static_cast<unsigned*>(std::calloc(std::max<size_t>(parameters.size(), 1), sizeof(unsigned)));
  if (visible == nullptr) return fail(ENOMEM, "no memory for parameters");
  std::ranges::copy(parameters, visible);
  size_t count = 0;
  unsigned* values = nullptr;
  int status = 0;
  {
    const Turn turn_held(*this);
    const NetcdfVariableInCall variable(chunk);
    status = called->NCZ_modify_parameters(NetcdfVariableInCall::kGroup, NetcdfVariableInCall::kVariable,
                                           &visible_count, &visible, &count, &values);
  }
  const std::unique_ptr<unsigned, Free> owned_visible(visible);
  const std::unique_ptr<unsigned, Free> owned(values);
  if (status != 0) return fail(EINVAL, "{} cannot work on this variable (netCDF's error {})", library_.path, status);
  ModifiedParameters modified;
  CODECFS_ASSIGN(modified.visible, returned(library_.path, visible_count, visible));
  CODECFS_ASSIGN(modified.working, returned(library_.path, count, values));
  return modified;
}

PluginsHeld::PluginsHeld() : lock_(foreign_calls()) { are_held = true; }
PluginsHeld::~PluginsHeld() { are_held = false; }

}  // namespace codecfs::filters
