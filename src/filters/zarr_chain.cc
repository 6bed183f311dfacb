#include "filters/zarr_chain.h"

#include <algorithm>
#include <utility>

#include "filters/codec_json.h"
#include "filters/filter.h"
#include "filters/filter_rules.h"

namespace codecfs::filters {
namespace {

constexpr uint32_t kShuffle = 2;
constexpr uint32_t kSzip = 4;
constexpr uint32_t kLz4 = 32004;
constexpr const char* kNumcodecsLz4 = "lz4";

/// Null where Zarr has no codec that numcodecs knows (netCDF-C alone has one for szip).
Json codec_for(const FilterStage& stage, bool& same_bytes) {
  if (stage.codec.is_object()) return print_codecs(std::span(&stage, 1)).front();
  if (stage.id == kSzip) return {};
  if (stage.id == kLz4) {
    same_bytes = false;
    return {{"id", kNumcodecsLz4}, {"acceleration", 1}};
  }
  const FilterPtr filter = find_for(stage);
  return filter != nullptr && filter->codec_of ? filter->codec_of(stage.parameters) : Json();
}

bool are_alike(const FilterStage& one, const FilterStage& other) {
  return one.codec.value("id", Json()) == other.codec.value("id", Json());
}

}  // namespace

ZarrChain zarr_chain(std::span<const FilterStage> chain, uint64_t item_size) {
  ZarrChain result;
  Json codecs = Json::array();
  for (const FilterStage& stage : chain) {
    codecs.push_back(codec_for(stage, result.same_bytes));
    if (codecs.back().is_null()) return {{}, false};
  }
  auto stages = parse_zarr_codecs(Json(), codecs, item_size);
  if (!stages) return {{}, false};
  result.stages = std::move(*stages);
  const bool for_hdf5 = std::ranges::none_of(chain, [](const FilterStage& stage) { return stage.codec.is_object(); });
  if (for_hdf5 && shuffle_goes_first(result.stages, item_size)) {
    std::swap(result.stages[0], result.stages[1]);
    result.same_bytes = false;
  }
  return result;
}

Result<std::vector<FilterStage>> hdf5_chain(std::span<const FilterStage> codecs, uint64_t item_size) {
  std::vector<FilterStage> chain;
  for (const FilterStage& codec : codecs) {
    FilterStage stage;
    stage.id = codec.codec.value("id", Json()) == kNumcodecsLz4 ? kLz4 : codec.id;
    if (stage.id != kLz4) stage.parameters = codec.parameters;
    if (stage.id == 0)
      return fail(EINVAL, "HDF5 has no filter for the codec {}; zlib, bz2, zstd, blosc, lz4 and shuffle have one",
                  print_json(codec.codec));
    if (stage.id == kShuffle && (stage.parameters.empty() || stage.parameters[0] != item_size))
      return fail(EINVAL, "the codec {}: HDF5 shuffles by the size of an element, which is {}", print_json(codec.codec),
                  item_size);
    chain.push_back(std::move(stage));
  }
  const ZarrChain shown = zarr_chain(chain, item_size);
  if (!std::ranges::equal(shown.stages, codecs, are_alike)) {
    Json asked = Json::array();
    for (const FilterStage& codec : codecs) asked.push_back(codec.codec);
    return fail(EINVAL, "HDF5 has no chain of filters that decodes what {} encodes; it would be {}", print_json(asked),
                print_json(print_codecs(shown.stages)));
  }
  return chain;
}

}  // namespace codecfs::filters
