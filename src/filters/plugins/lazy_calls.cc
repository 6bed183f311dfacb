// libhdf5's callbacks receive neither a context nor the filter's id, so there is one set of functions for each of a
// fixed number of slots, and a slot belongs to one library permanently (as in forwarding_class.cc).

#include "filters/plugins/lazy_calls.h"

#include <array>
#include <atomic>
#include <utility>

#include "base/worker_process.h"

namespace codecfs::filters {
namespace {

constexpr unsigned kLoading = 10;  // seconds
constexpr size_t kClassSlots = 64;

std::array<std::atomic<const DirectCalls*>, kClassSlots>& class_slots() {
  static auto& all = *new std::array<std::atomic<const DirectCalls*>, kClassSlots>{};
  return all;
}

/// Runs a function of the class of this slot.
template <size_t slot, class Run>
auto in_slot(size_t bytes, const Run& run) {
  const PluginLibrary& library = class_slots()[slot].load()->library();
  const LibraryCode code(library.path.c_str(), call_seconds(kCallSeconds, bytes));
  return run(*library.hdf5);
}

template <size_t slot>
size_t run_filter(unsigned flags, size_t count, const unsigned* values, size_t size, size_t* room, void** buffer) {
  return in_slot<slot>(size,
                       [&](const H5Z_class2_t& own) { return own.filter(flags, count, values, size, room, buffer); });
}
template <size_t slot>
htri_t run_can_apply(hid_t properties, hid_t type, hid_t space) {
  return in_slot<slot>(0, [&](const H5Z_class2_t& own) { return own.can_apply(properties, type, space); });
}
template <size_t slot>
herr_t run_set_local(hid_t properties, hid_t type, hid_t space) {
  return in_slot<slot>(0, [&](const H5Z_class2_t& own) { return own.set_local(properties, type, space); });
}

struct ClassFunctions {
  H5Z_func_t filter;
  H5Z_can_apply_func_t can_apply;
  H5Z_set_local_func_t set_local;
};

template <size_t... slot>
constexpr std::array<ClassFunctions, kClassSlots> class_functions_of(std::index_sequence<slot...>) {
  return {ClassFunctions{run_filter<slot>, run_can_apply<slot>, run_set_local<slot>}...};
}
constexpr std::array<ClassFunctions, kClassSlots> kClassFunctions =
    class_functions_of(std::make_index_sequence<kClassSlots>());

}  // namespace

Result<DirectCalls*> LazyCalls::loaded() {
  const LockGuard lock(mutex_);
  if (calls_ != nullptr) return calls_.get();
  if (failure_) return std::unexpected(*failure_);
  const LibraryCode code(shown_.c_str(), kLoading);
  Result<PluginLibrary> library = open_plugin(path_, shown_);
  if (!library) {
    failure_ = Error{library.error().code, fmt::format("{}: {}", shown_, library.error().reason)};
    return std::unexpected(*failure_);
  }
  calls_ = std::make_unique<DirectCalls>(*std::move(library), kCallSeconds);
  return calls_.get();
}

Result<DirectCalls*> LazyCalls::loaded_with(size_t codec) {
  CODECFS_ASSIGN(DirectCalls* const calls, loaded());
  if (codec >= calls->library().codecs.size()) return fail(ENOEXEC, "{}: has other codecs now", shown_);
  return calls;
}

Result<H5Z_class2_t> LazyCalls::hdf5_class() {
  CODECFS_ASSIGN(const DirectCalls* const calls, loaded());
  if (!calls->library().hdf5) return fail(ENOENT, "{}: has no HDF5 filter now", shown_);
  H5Z_class2_t made = *calls->library().hdf5;
  for (size_t i = 0; i < kClassSlots; ++i) {
    const DirectCalls* used = nullptr;
    if (!class_slots()[i].compare_exchange_strong(used, calls) && used != calls) continue;
    made.filter = kClassFunctions[i].filter;
    if (made.can_apply != nullptr) made.can_apply = kClassFunctions[i].can_apply;
    if (made.set_local != nullptr) made.set_local = kClassFunctions[i].set_local;
    return made;
  }
  return fail(EOPNOTSUPP, "more than {} plugins", kClassSlots);
}

Result<Buffer> LazyCalls::filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) {
  CODECFS_ASSIGN(DirectCalls* const calls, loaded());
  if (!calls->library().hdf5) return fail(EIO, "{}: has no HDF5 filter now", shown_);
  return calls->filter(flags, parameters, in, most);
}

Result<std::vector<uint32_t>> LazyCalls::parameters_of(size_t codec, const std::string& json) {
  CODECFS_ASSIGN(DirectCalls* const calls, loaded_with(codec));
  return calls->parameters_of(codec, json);
}

Result<std::string> LazyCalls::codec_of(size_t codec, std::span<const uint32_t> parameters) {
  CODECFS_ASSIGN(DirectCalls* const calls, loaded_with(codec));
  return calls->codec_of(codec, parameters);
}

Result<ModifiedParameters> LazyCalls::modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                          const ChunkShape& chunk) {
  CODECFS_ASSIGN(DirectCalls* const calls, loaded_with(codec));
  return calls->modified_parameters(codec, parameters, chunk);
}

void LazyCalls::finalize() {
  const LockGuard lock(mutex_);
  if (calls_ != nullptr) calls_->finalize();
}

}  // namespace codecfs::filters
