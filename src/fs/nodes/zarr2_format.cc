// Zarr v2: .zgroup, .zarray and .zattrs, and chunks 0.1.

#include <array>
#include <utility>

#include "filters/core/codec_json.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/metadata_format.h"

namespace codecfs::fs {
namespace {

constexpr std::array kGroupFiles2{NamedFile{".zgroup", FileKind::zgroup}, NamedFile{".zattrs", FileKind::zattrs},
                                  NamedFile{".zmetadata", FileKind::zmetadata}};
constexpr std::array kVariableFiles2{NamedFile{".zarray", FileKind::zarray}, NamedFile{".zattrs", FileKind::zattrs},
                                     NamedFile{"_Filter", FileKind::filter}, NamedFile{"_Codecs", FileKind::codecs}};

filters::Zarr3Chain zarr2_chain_of(std::span<const FilterStage> stages, const Variable& variable,
                                   ChainReaders readers) {
  const auto wanted = readers.netcdf ? filters::ZarrReaders::netcdf : filters::ZarrReaders::numcodecs;
  filters::ZarrChain chain = filters::zarr_chain(stages, filters::shape_of_chunk(variable), wanted);
  chain.stages = filters::for_zarr2(std::move(chain.stages), variable.type.size);
  return {std::move(chain), {}};
}

bool is_shown_in_zarr2(std::span<const FilterStage> shown, std::span<const FilterStage> written, size_t element_bytes) {
  const std::vector<FilterStage> wanted = filters::for_zarr2({written.begin(), written.end()}, element_bytes);
  return print_json(filters::print_codecs(shown)) == print_json(filters::print_codecs(wanted));
}

}  // namespace

constinit const MetadataFormat kZarr2Format{
    .version = 2,
    .readers = "readers of Zarr v2",
    .of_groups = kGroupFiles2,
    .of_variables = kVariableFiles2,
    .of_array = FileKind::zarray,
    .consolidated = FileKind::zmetadata,
    .has_attributes_apart = true,
    .has_chunk_directories = false,
    .has_shards = false,
    .shows_absent_chunks = true,
    .lists_new_groups_empty = false,
    .advice = ", or write format 2 (zarr_format=2 in zarr-python 3 and xarray)",
    .keys_of = [](const Variable&) { return ChunkKeys{.has_prefix = false, .separator = '.'}; },
    .codecs_of = [](const VariableView& variable) { return variable.codecs; },
    .print_chain = [](std::span<const FilterStage> chain) { return Result<Json>(filters::print_codecs(chain)); },
    .chain_of = zarr2_chain_of,
    .is_shown_as = is_shown_in_zarr2,
    .as_shown = [](std::vector<FilterStage> written,
                   size_t size) { return filters::for_zarr2(std::move(written), size); },
    .for_numcodecs = [](std::vector<FilterStage> written,
                        size_t size) { return filters::for_zarr2(std::move(written), size); },
    .for_hdf5 = [](std::vector<FilterStage> written, size_t) { return written; }};

}  // namespace codecfs::fs
