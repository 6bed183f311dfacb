// Zarr v3: zarr.json, and chunks c/0/1.

#include <array>
#include <utility>

#include "filters/core/zarr3_chain.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/metadata_format.h"

namespace codecfs::fs {
namespace {

constexpr std::array kGroupFiles3{NamedFile{"zarr.json", FileKind::zarr_json}};
constexpr std::array kVariableFiles3{NamedFile{"zarr.json", FileKind::zarr_json},
                                     NamedFile{"_Filter", FileKind::filter}, NamedFile{"_Codecs", FileKind::codecs}};

filters::Zarr3Chain zarr3_chain_of(std::span<const FilterStage> stages, const Variable& variable,
                                   ChainReaders readers) {
  const filters::ChunkShape shape = filters::shape_of_chunk(variable);
  filters::Zarr3Chain chain = filters::zarr3_chain(stages, shape, variable.object_codec);
  const bool is_shown = filters::is_portable(chain.stages) && chain.stages.empty() == stages.empty();
  return readers.portable && !is_shown ? filters::portable_chain(stages, shape) : chain;
}

/// The names that a source of Zarr v3 has, if they are no paths; else the usual ones.
ChunkKeys zarr3_keys_of(const Variable& variable) {
  return variable.chunk_keys.separator == '.' ? variable.chunk_keys : ChunkKeys();
}

}  // namespace

constinit const MetadataFormat kZarr3Format{
    .version = 3,
    .readers = "readers of Zarr v3",
    .of_groups = kGroupFiles3,
    .of_variables = kVariableFiles3,
    .of_array = FileKind::zarr_json,
    .consolidated = FileKind::zarr_json,
    .has_attributes_apart = false,
    .has_chunk_directories = true,
    .has_shards = true,
    .shows_absent_chunks = false,  // every array has a fill value, which readers take for an absent chunk
    .lists_new_groups_empty = true,
    .advice = "",
    .keys_of = zarr3_keys_of,
    .codecs_of = [](const VariableView& variable) { return variable.codecs3(); },
    .print_chain = [](std::span<const FilterStage> chain) { return filters::print_zarr3_chain(chain); },
    .chain_of = zarr3_chain_of,
    .is_shown_as = [](std::span<const FilterStage> shown, std::span<const FilterStage> written,
                      size_t size) { return filters::are_equal_in_zarr3(shown, written, size); },
    .as_shown = [](std::vector<FilterStage> written, size_t) { return written; },
    .for_numcodecs = [](std::vector<FilterStage> written,
                        size_t size) { return filters::for_numcodecs(std::move(written), size); },
    .for_hdf5 = [](std::vector<FilterStage> written,
                   size_t size) { return filters::with_zlib_for_gzip(std::move(written), size); }};

}  // namespace codecfs::fs
