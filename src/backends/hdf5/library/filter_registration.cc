// Our coders as filters of libhdf5. Its filter callback does not receive the filter id, so there is one callback for
// each of a fixed number of slots, and a slot belongs to one id permanently.

#include "backends/hdf5/library/filter_registration.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "base/buffer.h"
#include "filters/plugins/plugin_class.h"
#include "filters/plugins/plugins.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kSlots = 64;
constexpr uint32_t kOwnFilters = 6;  // libhdf5's own: deflate, shuffle, fletcher32, szip, n-bit, scale-offset
constexpr uint32_t kMaxDeflate = 9;
constexpr uint64_t kTrialBytes = uint64_t{16} << 20;

struct Slot {
  uint32_t id = 0;
  std::string name;
};

// Guarded by the LibraryLock; libhdf5 calls the callbacks under it too.
std::array<Slot, kSlots>& slots() {
  static auto& all = *new std::array<Slot, kSlots>;  // never destroyed: libhdf5 keeps pointers to the names
  return all;
}

// Encodes or decodes a chunk of which only the bytes are known.
Result<Buffer> run(const FilterStage& stage, bool decode, Bytes in) {
  const filters::FilterPtr filter = filters::find_by_id(stage.id);
  if (filter == nullptr || !filter->make_coder) return fail(ENOENT, "filter {} is no longer known", stage.id);
  filters::ChunkShape chunk;
  if (!decode) chunk.bytes = in.size();
  CODECFS_ASSIGN(const filters::Coder coder, filter->make_coder({stage, chunk}));
  if (decode) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(in));
    return coder.decode(std::move(copy), {max_chunk_bytes(), std::nullopt});
  }
  if (!coder.encode) return fail(ENOTSUP, "it only decodes");
  return coder.encode(in);
}

template <size_t slot>
size_t filter_function(unsigned flags, size_t count, const unsigned* values, size_t size, size_t* room, void** buffer) {
  try {
    FilterStage stage;
    stage.id = slots()[slot].id;
    if (count > 0) stage.parameters.assign(values, values + count);
    stage.optional = (flags & H5Z_FLAG_OPTIONAL) != 0;
    const Result<Buffer> out =
        run(stage, (flags & H5Z_FLAG_REVERSE) != 0, {static_cast<const std::byte*>(*buffer), size});
    if (!out || out->empty()) return 0;
    return filters::give_to_library(out->bytes(), room, buffer);
  } catch (const std::exception&) {
    return 0;
  }
}

template <size_t... slot>
constexpr std::array<H5Z_func_t, kSlots> functions_of(std::index_sequence<slot...>) {
  return {filter_function<slot>...};
}
constexpr std::array<H5Z_func_t, kSlots> kFunctions = functions_of(std::make_index_sequence<kSlots>());

Result<> register_with_library(const filters::Filter& filter) {
  const auto slot = std::ranges::find_if(slots(), [&](const Slot& s) { return s.id == filter.id || s.id == 0; });
  if (slot == slots().end()) return fail(EOPNOTSUPP, "libhdf5 has {} filters of codecfs already", kSlots);
  if (slot->id == filter.id) return {};
  slot->name = filter.name;
  H5Z_class2_t registration{};
  registration.version = H5Z_CLASS_T_VERS;
  registration.id = static_cast<H5Z_filter_t>(filter.id);
  registration.encoder_present = filter.encodes ? 1 : 0;
  registration.decoder_present = filter.decodes ? 1 : 0;
  registration.name = slot->name.c_str();
  registration.filter = kFunctions[static_cast<size_t>(slot - slots().begin())];
  if (H5Zregister(&registration) < 0) return fail_library(EIO, "filter {} ({})", filter.id, filter.name);
  slot->id = filter.id;
  return {};
}

Result<> register_plugin(const filters::Filter& filter) {
  if (H5Zfilter_avail(static_cast<H5Z_filter_t>(filter.id)) > 0) return {};
  const std::optional<H5Z_class2_t> registration = filters::plugin_class(filter.id);
  if (!registration) return fail(ENOENT, "{} no longer provides filter {}", filter.hdf5_library, filter.id);
  if (H5Zregister(&*registration) < 0) return fail_library(EIO, "filter {} ({})", filter.id, filter.name);
  return {};
}

Result<filters::FilterPtr> find_filter(const FilterStage& stage) {
  const filters::FilterPtr filter = filters::find_for(stage);
  if (filter == nullptr && stage.codec->is_object())
    return fail(ENOENT, "codec '{}' is neither built in nor a plugin's", stage.codec->value("id", ""));
  if (filter == nullptr) return fail(ENOENT, "filter {} is neither built in nor a plugin's", stage.id);
  if (filter->id == 0) return fail(EINVAL, "{} has no HDF5 filter id: only Zarr has it", filter->name);
  if (filter->in_libhdf5)
    return fail(EOPNOTSUPP, "{} can be decoded, but is not written by codecfs; choose another filter", filter->name);
  if (!filter->make_coder)
    return fail(ENOENT, "{} provides the codec of filter {}, but no plugin provides its HDF5 filter",
                filter->codec_library, filter->id);
  if (!filter->encodes) return fail(EINVAL, "{} can only be decoded", filter->name);
  return filter;
}

Result<FilterStage> complete(const FilterStage& stage, const filters::ChunkShape& chunk, filters::Coder& coder) {
  CODECFS_ASSIGN(const filters::FilterPtr filter, find_filter(stage));
  FilterStage whole{.id = filter->id,
                    .parameters = stage.parameters,
                    .codec = {},
                    .name = filter->name,
                    .optional = stage.has_flag ? stage.optional : filter->id != H5Z_FILTER_FLETCHER32,
                    .has_flag = stage.has_flag,
                    .is_complete = stage.is_complete};
  const auto invalid = [&](const Error& error) { return fail(EINVAL, "{}: {}", filter->name, error.reason); };
  if (stage.codec->is_object() && whole.parameters.empty() && filter->parameters_of) {
    auto parameters = filter->parameters_of(stage.codec, chunk.type.size);
    if (!parameters) return invalid(parameters.error());
    whole.parameters = *std::move(parameters);
  }
  if (filter->working_parameters && filter->hdf5_library.empty() && !whole.is_complete) {
    auto parameters = filter->working_parameters({whole, chunk});
    if (!parameters) return invalid(parameters.error());
    whole.parameters = *std::move(parameters);
  }
  if (whole.id == H5Z_FILTER_DEFLATE && (whole.parameters.size() != 1 || whole.parameters[0] > kMaxDeflate))
    return fail(EINVAL, "deflate needs one parameter, the level from 0 to {}", kMaxDeflate);
  if (whole.id == H5Z_FILTER_SZIP && chunk.type.kind != TypeKind::signed_int &&
      chunk.type.kind != TypeKind::unsigned_int && chunk.type.kind != TypeKind::floating &&
      chunk.type.kind != TypeKind::boolean)
    return fail(EINVAL, "szip only supports integers and floating-point numbers");
  // For the trial: an optional filter may skip so few bytes as this chunk has.
  FilterStage applied = whole;
  applied.optional = false;
  auto made = filter->make_coder({applied, chunk});
  if (!made) return invalid(made.error());
  coder = *std::move(made);
  if (!coder.encode) return fail(EINVAL, "{} can only be decoded with these parameters", filter->name);
  return whole;
}

}  // namespace

// Encodes some zeros with each filter, because parameters that only the encoder rejects would make libhdf5 skip an
// optional filter for every chunk. Not for plugins' filters, whose parameters are not complete yet. What an optional
// filter gets from those before it may be nothing that it encodes: it is left out of such a chunk, as in libhdf5.
Result<std::vector<FilterStage>> complete_chain(std::span<const FilterStage> chain, const filters::ChunkShape& chunk) {
  if (chain.size() > H5Z_MAX_NFILTERS)
    return fail(EINVAL, "{} filters in a pipeline; HDF5 supports at most {}", chain.size(), H5Z_MAX_NFILTERS);
  std::vector<FilterStage> whole;
  const uint64_t element = std::max<uint64_t>(chunk.type.size, 1);
  const uint64_t most = std::max(kTrialBytes / element, uint64_t{1}) * element;
  CODECFS_ASSIGN(Buffer trial, Buffer::allocate(std::min(chunk.bytes.value_or(0), most)));
  std::memset(trial.data(), 0, trial.size());
  for (const FilterStage& stage : chain) {
    filters::Coder coder;
    CODECFS_ASSIGN(FilterStage next, complete(stage, chunk, coder));
    const filters::FilterPtr filter = filters::find_by_id(next.id);
    if (filter != nullptr && filter->hdf5_library.empty() && !trial.empty()) {
      auto encoded = coder.encode(trial.bytes());
      if (!encoded && encoded.error().code == ENOMEM) return pass_on(encoded);
      if (!encoded) return fail(EINVAL, "{}: {}", next.name, encoded.error().reason);
    }
    whole.push_back(std::move(next));
  }
  return whole;
}

Result<> make_available(const FilterStage& stage) {
  if (stage.id <= kOwnFilters) return {};
  const filters::FilterPtr filter = filters::find_by_id(stage.id);
  if (filter == nullptr || !filter->make_coder)
    return fail(ENOENT, "filter {} is neither built in nor a plugin's", stage.id);
  return filter->hdf5_library.empty() ? register_with_library(*filter) : register_plugin(*filter);
}

void register_temporarily(const Variable& variable) {
  const bool is_virtual = variable.storage == Storage::virtual_sources;
  if (is_virtual) filters::load_plugins();
  const LibraryLock lock;
  for (const FilterStage& stage : variable.filters) (void)make_available(stage);
  if (!is_virtual) return;
  for (const filters::FilterPtr& filter : filters::list())
    if (filter->id != 0 && filter->make_coder)
      (void)make_available({.id = filter->id, .parameters = {}, .codec = {}, .name = {}});
}

// H5Zregister replaces the class that is registered under the same id.
Result<> KeptParameters::keep(std::span<const FilterStage> chain) {
  for (const FilterStage& stage : chain) {
    if (!stage.is_complete || stage.id <= kOwnFilters) continue;
    std::optional<H5Z_class2_t> original = filters::plugin_class(stage.id);
    if (!original || original->set_local == nullptr) continue;
    H5Z_class2_t without = *original;
    without.set_local = nullptr;
    if (H5Zregister(&without) < 0)
      return fail_library(EIO, "filter {}: its parameters cannot be kept as they are", stage.id);
    originals_.push_back(*original);
  }
  return {};
}

KeptParameters::~KeptParameters() {
  for (const H5Z_class2_t& original : originals_) H5Zregister(&original);
}

Result<> add_filters(hid_t properties, std::span<const FilterStage> chain) {
  for (const FilterStage& stage : chain) {
    CODECFS_TRY(make_available(stage));
    const unsigned flags = stage.optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY;
    const std::vector<unsigned> values(stage.parameters.begin(), stage.parameters.end());
    if (H5Pset_filter(properties, static_cast<H5Z_filter_t>(stage.id), flags, values.size(), values.data()) < 0)
      return fail_library(EINVAL, "filter {} ({})", stage.id, stage.name);
  }
  return {};
}

bool is_same_chain(std::span<const FilterStage> one, std::span<const FilterStage> other) {
  return std::ranges::equal(one, other, [](const FilterStage& a, const FilterStage& b) {
    return a.id == b.id && a.parameters == b.parameters && a.optional == b.optional;
  });
}

Result<std::vector<FilterStage>> stored_chain(hid_t properties) {
  std::vector<FilterStage> chain;
  const int count = H5Pget_nfilters(properties);
  if (count < 0) return fail_library(EIO, "the filters of a dataset");
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    FilterStage stage;
    std::vector<unsigned> parameters(32);
    std::array<char, 257> name{};
    unsigned flags = 0;
    // The first call returns the number of parameters, the second all of them.
    for (int round = 0; round < 2; ++round) {
      size_t wanted = parameters.size();
      unsigned configuration = 0;
      const H5Z_filter_t id = H5Pget_filter2(properties, i, &flags, &wanted, parameters.data(), name.size() - 1,
                                             name.data(), &configuration);
      if (id < 0 || wanted > 65536) return fail_library(EIO, "filter {} of a dataset", i);
      stage.id = static_cast<uint32_t>(id);
      const bool complete = wanted <= parameters.size();
      parameters.resize(wanted);
      if (complete) break;
    }
    stage.parameters.assign(parameters.begin(), parameters.end());
    stage.name = as_utf8(name.data());
    stage.optional = (flags & H5Z_FLAG_OPTIONAL) != 0;
    stage.has_flag = stage.is_complete = true;
    chain.push_back(std::move(stage));
  }
  return chain;
}

}  // namespace codecfs::hdf5
