#include "filters/core/zarr_chain.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "filters/core/codec_json.h"
#include "filters/core/filter_rules.h"
#include "filters/core/zarr3_codecs.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

constexpr uint32_t kSzip = 4;
constexpr uint32_t kLz4 = 32004;
constexpr uint32_t kDeflate = 1;
constexpr uint32_t kDefaultLevel = 6;
constexpr const char* kNumcodecsLz4 = "lz4";
constexpr const char* kZlib = "zlib";
constexpr const char* kGzip = "gzip";

/// The codecs of numcodecs that may replace an HDF5 filter; readers of Zarr v2 support most of them.
constexpr std::array<std::string_view, 11> kNumcodecs = {"adler32", "blosc", "bz2",     "crc32", "crc32c", "fletcher32",
                                                         "gzip",    "lzma",  "shuffle", "zlib",  "zstd"};

/// The parameters with which the HDF5 filter of a codec of a plugin decodes: NCZ_modify_parameters may change them.
bool has_parameters(const FilterStage& codec, const std::vector<uint32_t>& parameters, const ChunkShape& chunk) {
  const FilterPtr filter = find_for(codec);
  if (filter == nullptr || !filter->working_parameters) return codec.parameters == parameters;
  const auto working = filter->working_parameters({codec, chunk});
  return working && *working == parameters;
}

/// Null if the readers have no codec for it.
Json codec_for(const FilterStage& stage, const ChunkShape& chunk, ZarrReaders readers, bool& same_bytes) {
  const bool for_netcdf = readers == ZarrReaders::netcdf;
  if (stage.codec->is_object())
    return for_netcdf && stage.id == 0 ? Json() : print_codecs(std::span(&stage, 1)).front();
  if (stage.id == kSzip && !for_netcdf) return {};
  if (stage.id == kLz4 && !for_netcdf) {
    same_bytes = false;
    return {{"id", kNumcodecsLz4}, {"acceleration", 1}};
  }
  const FilterPtr filter = find_for(stage);
  Json codec = filter != nullptr && filter->codec_of ? filter->codec_of(stage.parameters) : Json();
  const auto id = codec.is_object() ? codec.find("id") : codec.end();
  if (id == codec.end() || !id->is_string()) return {};
  const std::string_view name = id->get_ref<const std::string&>();
  if (std::ranges::find(kNumcodecs, name) != kNumcodecs.end()) return codec;
  if (filter->codec_library.empty() && stage.id != kSzip) return {};
  const auto shown = parse_zarr_codecs(codec, {}, chunk.type.size);
  if (!shown) return {};
  if (!has_parameters(shown->front(), stage.parameters, chunk)) same_bytes = false;
  return codec;
}

/// Size of a stage's output for input of `size` bytes; none if that depends on the data.
std::optional<uint64_t> encoded_size(const FilterStage& stage, const ChunkShape& chunk, uint64_t size) {
  const FilterPtr filter = find_for(stage);
  if (filter == nullptr || !filter->make_coder) return std::nullopt;
  const Result<Coder> coder = filter->make_coder({stage, chunk});
  if (!coder) return std::nullopt;
  return coder->encoded ? coder->encoded(SizeBound::exactly(size)).exact : size;
}

bool are_alike(const FilterStage& one, const FilterStage& other) {
  return one.codec->value("id", Json()) == other.codec->value("id", Json());
}

}  // namespace

std::optional<size_t> shuffle_of_parts(std::span<const FilterStage> chain, const ChunkShape& chunk) {
  std::optional<uint64_t> size = chunk.bytes;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (chain[i].id == kShuffleId) {
      const uint64_t given = chain[i].parameters.empty() ? 0 : chain[i].parameters[0];
      const uint64_t element = given == 0 ? chunk.type.size : given;
      if (element > 1 && (!size || *size % element != 0)) return i;
    } else if (size) {
      size = encoded_size(chain[i], chunk, *size);
    }
  }
  return std::nullopt;
}

namespace {

/// Replaces the HDF5 filters by codecs, of either version of Zarr.
ZarrChain codec_chain(std::span<const FilterStage> chain, const ChunkShape& chunk, ZarrReaders readers) {
  const uint64_t item_size = chunk.type.size;
  ZarrChain result;
  Json codecs = Json::array();
  for (const FilterStage& stage : chain) {
    codecs.push_back(codec_for(stage, chunk, readers, result.same_bytes));
    if (codecs.back().is_null()) return {{}, false};
  }
  auto stages = parse_zarr_codecs(Json(), codecs, item_size);
  if (!stages) return {{}, false};
  result.stages = std::move(*stages);
  const bool for_hdf5 = std::ranges::none_of(chain, [](const FilterStage& stage) { return stage.codec->is_object(); });
  if (for_hdf5 && shuffle_goes_first(result.stages, item_size)) {
    std::swap(result.stages[0], result.stages[1]);
    result.same_bytes = false;
  }
  while (for_hdf5) {
    const auto useless = shuffle_of_parts(result.stages, chunk);
    if (!useless) break;
    result.stages.erase(result.stages.begin() + static_cast<ptrdiff_t>(*useless));
    result.same_bytes = false;
  }
  return result;
}

/// The name of a stage's filter; "" if it is not known.
std::string name_of(const FilterStage& stage) {
  const FilterPtr filter = find_for(stage);
  return filter == nullptr ? "" : filter->name;
}

}  // namespace

ZarrChain zarr_chain(std::span<const FilterStage> chain, const ChunkShape& chunk, ZarrReaders readers) {
  const bool is_of_v3 = std::ranges::any_of(chain, [](const FilterStage& stage) {
    return codec_id(stage).starts_with("zarr3:") && find_for(stage) != nullptr;
  });
  if (is_of_v3) return {{}, false};
  return codec_chain(chain, chunk, readers);
}

bool is_portable(std::span<const FilterStage> codecs) {
  constexpr std::array<std::string_view, 3> kPortable = {"blosc", "gzip", "zstd"};
  return std::ranges::all_of(codecs, [&](const FilterStage& stage) {
    const std::string_view id = codec_id(stage);
    if (id == "crc32c") return stage.codec->value("location", Json("end")) == "end";
    return std::ranges::find(kPortable, id) != kPortable.end();
  });
}

Zarr3Chain portable_chain(std::span<const FilterStage> chain, const ChunkShape& chunk) {
  constexpr std::array<std::string_view, 4> kChecksums = {"adler32", "crc32", "crc32c", "fletcher32"};
  constexpr uint64_t kMaxBloscType = 255;
  bool is_shuffled = false;
  bool is_compressed = false;
  bool has_checksum = false;
  for (const FilterStage& stage : chain) {
    const std::string name = name_of(stage);
    if (std::ranges::find(kChecksums, name) != kChecksums.end())
      has_checksum = true;
    else
      (name == "shuffle" ? is_shuffled : is_compressed) = true;
    if (name == "bitshuffle" || name == "blosc") is_shuffled = true;  // they compress too
  }
  Json codecs = Json::array();
  const bool has_bytes_to_shuffle = chunk.type.size > 1 && chunk.type.size <= kMaxBloscType;
  if (is_shuffled && is_compressed && has_bytes_to_shuffle)
    codecs.push_back({{"id", "blosc"}, {"cname", "zstd"}, {"clevel", 5}, {"shuffle", 1}, {"blocksize", 0}});
  else if (is_compressed)
    codecs.push_back({{"id", "zstd"}, {"level", 3}});
  if (has_checksum) codecs.push_back({{"id", "crc32c"}});
  auto stages = parse_zarr_codecs(Json(), codecs, chunk.type.size);
  if (!stages) return {{{}, false}, {}};
  return {{std::move(*stages), false}, {}};
}

Zarr3Chain zarr3_chain(std::span<const FilterStage> chain, const ChunkShape& chunk, const Json& object_codec) {
  Zarr3Chain result{codec_chain(chain, chunk, ZarrReaders::numcodecs), {}};
  if (!print_zarr3_codecs(result.stages, chunk.type, object_codec)) return {{{}, false}, {}};
  if (result.stages.empty() || codec_id(result.stages.back()) != kZlib) return result;
  std::optional<uint64_t> size = chunk.bytes;
  for (size_t i = 0; size && i + 1 < result.stages.size(); ++i) size = encoded_size(result.stages[i], chunk, *size);
  if (!size || *size > UINT32_MAX) return result;
  const Json level = result.stages.back().codec->value("level", Json(1));
  const bool is_level = level.is_number_integer() && level >= 0 && level <= 9;
  auto stages = parse_zarr_codecs({{"id", kGzip}, {"level", is_level ? level : Json(6)}}, {}, chunk.type.size);
  if (!stages) return result;
  result.stages.back() = std::move(stages->front());
  result.gzip_size = size;
  return result;
}

std::vector<FilterStage> with_zlib_for_gzip(std::vector<FilterStage> codecs, uint64_t item_size) {
  if (codecs.empty() || codec_id(codecs.back()) != kGzip) return codecs;
  Json codec = codecs.back().codec;
  codec["id"] = kZlib;
  if (auto stages = parse_zarr_codecs(codec, {}, item_size)) codecs.back() = std::move(stages->front());
  return codecs;
}

std::vector<FilterStage> for_numcodecs(std::vector<FilterStage> codecs, uint64_t item_size) {
  for (FilterStage& stage : codecs) {
    const std::string_view id = codec_id(stage);
    Json codec = stage.codec;
    if (id == "zstd" && codec.value("checksum", Json()) == false) codec.erase("checksum");
    if (id == "blosc" && codec.value("typesize", Json()) == item_size) codec.erase("typesize");
    stage.codec = std::move(codec);
  }
  return codecs;
}

std::vector<FilterStage> for_zarr2(std::vector<FilterStage> codecs, uint64_t item_size) {
  codecs = for_numcodecs(std::move(codecs), item_size);
  for (FilterStage& stage : codecs) {
    if (codec_id(stage) != "blosc" || !stage.codec->contains("typesize")) continue;
    Json codec = stage.codec;
    codec.erase("typesize");
    stage.codec = std::move(codec);
  }
  return codecs;
}

Result<Hdf5Chain> hdf5_chain(std::span<const FilterStage> codecs, const ChunkShape& chunk) {
  const uint64_t item_size = chunk.type.size;
  Hdf5Chain chain;
  for (const FilterStage& codec : codecs) {
    FilterStage stage;
    const std::string_view id = codec_id(codec);
    if (id == kNumcodecsLz4) {
      stage.id = kLz4;
    } else if (id == kGzip) {
      stage = with_zlib_for_gzip({codec}, item_size).front();
      stage.codec = {};
    } else {
      stage.id = codec.id;
      stage.parameters = codec.parameters;
    }
    if (stage.id == 0)
      return fail(EINVAL, "HDF5 has no filter for the codec {}; zlib, bz2, zstd, blosc, lz4 and shuffle have one",
                  print_json(codec.codec));
    if (stage.id == kShuffleId && (stage.parameters.empty() || stage.parameters[0] != item_size))
      return fail(EINVAL, "the codec {}: HDF5 shuffles by the size of an element, which is {}", print_json(codec.codec),
                  item_size);
    // numcodecs takes -1 for the default level, HDF5 has none.
    if (stage.id == kDeflate && !stage.parameters.empty() && static_cast<int32_t>(stage.parameters[0]) == -1)
      stage.parameters[0] = kDefaultLevel;
    chain.stages.push_back(std::move(stage));
  }
  const ZarrChain shown = zarr_chain(chain.stages, chunk);
  chain.is_shown_so = std::ranges::equal(shown.stages, codecs, are_alike);
  return chain;
}

Result<> leave_out_for_hdf5(Zarr3Chain& chain, const ChunkShape& chunk) {
  Result<> whole;
  const size_t left_out = std::erase_if(chain.stages, [&](const FilterStage& stage) {
    const auto filter = hdf5_chain(std::span(&stage, 1), chunk);
    if (!filter && whole) whole = std::unexpected(filter.error());
    return !filter;
  });
  if (left_out == 0) return {};
  chain.same_bytes = false;
  chain.gzip_size.reset();
  return whole;
}

}  // namespace codecfs::filters
