#include "filters/plugins/forwarding_class.h"

#include <hdf5.h>

#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "filters/core/pipeline.h"
#include "filters/plugins/dataset_preparation.h"
#include "filters/plugins/plugin_class.h"
#include "model/limits.h"

namespace codecfs::filters {
namespace {

constexpr size_t kSlots = 64;

// Never destroyed: libhdf5 keeps pointers to the names. A slot does not change once it is in use.
std::array<std::atomic<std::shared_ptr<CodecWorkers>*>, kSlots>& slots() {
  static auto& all = *new std::array<std::atomic<std::shared_ptr<CodecWorkers>*>, kSlots>{};
  return all;
}

CodecWorkers& workers_of(size_t slot) { return **slots()[slot].load(); }

Mutex& claiming() {
  static auto& mutex = *new Mutex;
  return mutex;
}

template <size_t slot>
size_t filter_function(unsigned flags, size_t count, const unsigned* values, size_t size, size_t* room, void** buffer) {
  try {
    const Result<Buffer> out = workers_of(slot).filter(
        flags, {values, count}, {static_cast<const std::byte*>(*buffer), size}, max_of_plugin(max_chunk_bytes()));
    if (!out) {
      log::warning("{}", out.error().reason);
      return 0;
    }
    return give_to_library(out->bytes(), room, buffer);
  } catch (const std::exception&) {
    return 0;
  }
}

/// The parameters after can_apply or set_local. Logs the reason of a failure.
Result<std::vector<uint32_t>> prepare(CodecWorkers& workers, bool only_check, hid_t properties, hid_t type,
                                      hid_t space) {
  const PluginDescription& plugin = workers.description();
  CODECFS_ASSIGN(DatasetToPrepare dataset, describe_dataset(plugin.hdf5->id, properties, type, space));
  dataset.only_check = only_check;
  auto prepared = workers.prepare_dataset(dataset);
  if (!prepared && prepared.error().code != ENOTSUP) log::warning("{}: {}", plugin.path, prepared.error().reason);
  return prepared;
}

template <size_t slot>
htri_t can_apply_function(hid_t properties, hid_t type, hid_t space) {
  try {
    const auto prepared = prepare(workers_of(slot), true, properties, type, space);
    return prepared ? 1 : prepared.error().code == ENOTSUP ? 0 : -1;
  } catch (const std::exception&) {
    return -1;
  }
}

template <size_t slot>
herr_t set_local_function(hid_t properties, hid_t type, hid_t space) {
  try {
    CodecWorkers& workers = workers_of(slot);
    const auto prepared = prepare(workers, false, properties, type, space);
    if (!prepared) return -1;
    const auto id = static_cast<H5Z_filter_t>(workers.description().hdf5->id);
    unsigned flags = 0;
    size_t count = 0;
    if (H5Pget_filter_by_id2(properties, id, &flags, &count, nullptr, 0, nullptr, nullptr) < 0) return -1;
    return H5Pmodify_filter(properties, id, flags, prepared->size(), prepared->data());
  } catch (const std::exception&) {
    return -1;
  }
}

struct Functions {
  H5Z_func_t filter;
  H5Z_can_apply_func_t can_apply;
  H5Z_set_local_func_t set_local;
};

template <size_t... slot>
constexpr std::array<Functions, kSlots> functions_of(std::index_sequence<slot...>) {
  return {Functions{filter_function<slot>, can_apply_function<slot>, set_local_function<slot>}...};
}
constexpr std::array<Functions, kSlots> kFunctions = functions_of(std::make_index_sequence<kSlots>());

}  // namespace

size_t give_to_library(Bytes out, size_t* room, void** buffer) {
  void* memory = H5allocate_memory(out.size(), false);
  if (memory == nullptr) return 0;
  std::memcpy(memory, out.data(), out.size());
  H5free_memory(*buffer);
  *buffer = memory;
  *room = out.size();
  return out.size();
}

Result<H5Z_class2_t> forwarding_class(const std::shared_ptr<CodecWorkers>& workers) {
  const PluginDescription::Hdf5Filter& filter = *workers->description().hdf5;
  const LockGuard guard(claiming());
  for (size_t i = 0; i < kSlots; ++i) {
    const auto* used = slots()[i].load();
    if (used != nullptr && *used != workers) continue;
    if (used == nullptr) slots()[i] = new std::shared_ptr(workers);  // never freed
    H5Z_class2_t made{};
    made.version = H5Z_CLASS_T_VERS;
    made.id = static_cast<H5Z_filter_t>(filter.id);
    made.encoder_present = filter.encodes ? 1 : 0;
    made.decoder_present = filter.decodes ? 1 : 0;
    made.name = filter.name.c_str();  // of the description, which is constant
    made.can_apply = filter.has_can_apply ? kFunctions[i].can_apply : nullptr;
    made.set_local = filter.has_set_local ? kFunctions[i].set_local : nullptr;
    made.filter = kFunctions[i].filter;
    return made;
  }
  return fail(EOPNOTSUPP, "more than {} plugins", kSlots);
}

}  // namespace codecfs::filters
