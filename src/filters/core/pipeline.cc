// make() parses all parameters once, so that decoding a chunk needs no lookup. decode() first computes from the chunk's
// size which sizes each stage may produce, in the order of encoding; then it decodes in reverse order within these
// bounds.

#include "filters/core/pipeline.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "filters/core/filter.h"
#include "filters/core/filter_sources.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::filters {
namespace {

constexpr size_t kMaxStages = 32;  // bits of HDF5's filter mask
// A chain of built-in filters may let a chunk grow by this factor, so that many stages together do not permit a decoder
// any size.
constexpr uint64_t kMaxGrowth = 16;
constexpr uint64_t kMaxGrown = uint64_t{1} << 20;  // bytes, in addition
constexpr uint64_t kMargin = uint64_t{64} << 10;   // bytes

/// The name of a stage in messages: "deflate (filter 1)", "codec 'delta'".
std::string label_of(const FilterStage& stage, const Filter* filter) {
  if (stage.codec->is_object() && stage.codec->contains("id")) {
    const auto* codec = (*stage.codec)["id"].get_ptr<const std::string*>();
    if (codec != nullptr && !codec->starts_with("hdf5:")) return fmt::format("codec '{}'", *codec);
  }
  const std::string& name = filter != nullptr ? filter->name : stage.name;
  return name.empty() ? fmt::format("filter {}", stage.id) : fmt::format("filter {} ({})", stage.id, name);
}

}  // namespace

struct Pipeline::Stage {
  std::string label;
  FilterPtr filter;
  Coder coder;
  bool optional = false;

  [[nodiscard]] SizeBound encoded(const SizeBound& decoded) const {
    return coder.encoded ? coder.encoded(decoded) : decoded;
  }

  Result<Buffer> decode(Buffer stored, const SizeBound& bound) const {
    Result<Buffer> decoded = coder.decode(std::move(stored), bound);
    if (!decoded) return fail(decoded.error().code, "{}: {}", label, decoded.error().reason);
    if (bound.exact && decoded->size() != *bound.exact)
      return fail(EIO, "{}: decoded to {} bytes, not {}", label, decoded->size(), *bound.exact);
    if (decoded->size() > bound.max)
      return fail(EIO, "{}: decoded to {} bytes, more than {}", label, decoded->size(), bound.max);
    return decoded;
  }

  Result<Buffer> encode(Bytes in) const {
    if (!coder.encode) return fail(ENOTSUP, "{}: can only be read here", label);
    Result<Buffer> out = coder.encode(in);
    if (!out) return fail(out.error().code, "{}: {}", label, out.error().reason);
    // Do not store output that decode() would reject.
    const SizeBound bound = encoded(SizeBound::exactly(in.size()));
    if (out->size() > bound.max || (bound.exact && out->size() != *bound.exact))
      return fail(EIO, "{}: made {} bytes of {}", label, out->size(), in.size());
    return out;
  }
};

/// Whether a filter does not take the data, as a filter function that returns 0 in HDF5. A plugin that crashes, hangs
/// or returns too much is an error instead: its filter may be what protects the data.
bool declines(const Error& error) { return error.code == EINVAL || error.code == ENOTSUP; }

ChunkShape shape_of_chunk(const Variable& variable) {
  return {variable.chunk_bytes, variable.type, variable.grid.shape(), variable.grid.chunks(), variable.zarr3_type};
}

ChunkShape shape_of_stored_chunk(const Variable& variable) {
  ChunkShape chunk = shape_of_chunk(variable);
  for (size_t i = 0; i < variable.stored_order.size(); ++i) {
    chunk.shape[i] = variable.grid.shape()[variable.stored_order[i]];
    chunk.chunks[i] = variable.grid.chunks()[variable.stored_order[i]];
  }
  return chunk;
}

bool only_in_libhdf5(uint32_t id) {
  const FilterPtr filter = find_by_id(id);
  return filter != nullptr && filter->in_libhdf5;
}

uint64_t max_of_plugin(uint64_t decoded) {
  constexpr uint64_t kGrowth = 128;
  constexpr uint64_t kGrown = uint64_t{64} << 20;  // bytes, in addition
  const uint64_t grown = kGrowth * std::min(decoded, kLargestMaxChunk / kGrowth) + kGrown;
  return std::max(2 * decoded + kMargin, std::min({grown, 2 * max_chunk_bytes() + kMargin, kLargestMaxChunk}));
}

bool has_plugin(std::span<const FilterStage> chain) {
  return std::ranges::any_of(chain, [](const FilterStage& stage) {
    const FilterPtr filter = find_for(stage);
    return filter == nullptr || !filter->hdf5_library.empty();
  });
}

Result<Pipeline> Pipeline::make(std::span<const FilterStage> chain, const ChunkShape& chunk) try {
  if (chain.size() > kMaxStages)
    return fail(EINVAL, "{} filters in a pipeline, more than {}", chain.size(), kMaxStages);
  Pipeline pipeline;
  pipeline.chunk_ = chunk;
  ChunkShape input = chunk;
  for (const FilterStage& stage : chain) {
    auto made = std::make_shared<Stage>();
    made->filter = find_for(stage);
    made->label = label_of(stage, made->filter.get());
    if (made->filter == nullptr)
      return fail(EIO, "{} is neither built in nor a plugin's: {}", made->label, where_searched(stage.id));
    if (made->filter->in_libhdf5) return fail(EIO, "{}: only libhdf5 decodes this", made->label);
    if (!made->filter->make_coder)
      return fail(EIO, "{}: {} has its codec, but no library its HDF5 filter {}: {}", made->label,
                  made->filter->codec_library, made->filter->id, where_searched(made->filter->id));
    FilterStage complete = stage;
    // Plugins need complete parameters. Built-in coders complete their own, and accept more (Blosc's block size).
    if (made->filter->working_parameters && !made->filter->hdf5_library.empty()) {
      Result<std::vector<uint32_t>> parameters = made->filter->working_parameters({stage, input});
      if (!parameters) return fail(parameters.error().code, "{}: {}", made->label, parameters.error().reason);
      complete.parameters = *std::move(parameters);
    }
    Result<Coder> coder = made->filter->make_coder({complete, input});
    if (!coder) return fail(coder.error().code, "{}: {}", made->label, coder.error().reason);
    made->coder = *std::move(coder);
    if (made->coder.encoded_chunk) input = *made->coder.encoded_chunk;
    made->optional = stage.optional;
    pipeline.has_plugin_ = pipeline.has_plugin_ || !made->filter->hdf5_library.empty();
    pipeline.stages_.push_back(std::move(made));
  }
  return pipeline;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for the filters of a variable");
} catch (const std::exception& e) {
  return fail(EINVAL, "the filters of a variable cannot be read: {}", e.what());
}

Result<Buffer> Pipeline::decode(Buffer stored, uint32_t filter_mask) const {
  return decode_within(std::move(stored), filter_mask,
                       chunk_.bytes ? SizeBound::exactly(*chunk_.bytes) : SizeBound{max_chunk_bytes(), std::nullopt});
}

Result<Buffer> Pipeline::decode(Buffer stored, uint32_t filter_mask, uint64_t least) const {
  if (!chunk_.bytes || least >= *chunk_.bytes) return decode(std::move(stored), filter_mask);
  Result<Buffer> decoded = decode_within(std::move(stored), filter_mask, SizeBound::usually(*chunk_.bytes));
  if (decoded && decoded->size() < least)
    return fail(EIO, "decoded to {} bytes, not {}, and the array has {} of them", decoded->size(), *chunk_.bytes,
                least);
  return decoded;
}

Result<Buffer> Pipeline::decode_within(Buffer stored, uint32_t filter_mask, const SizeBound& chunk) const try {
  const auto applied = [&](size_t i) { return (filter_mask >> i & 1) == 0; };

  std::array<SizeBound, kMaxStages> decoded;  // bounds for the decoded output of stage i
  SizeBound bound = chunk;
  const uint64_t most = std::max(kMaxGrowth * chunk.max + kMaxGrown, has_plugin_ ? max_of_plugin(chunk.max) : 0);
  for (size_t i = 0; i < stages_.size(); ++i) {
    decoded[i] = bound;
    if (applied(i)) bound = stages_[i]->encoded(bound);
    if (!bound.exact) bound.max = std::min(bound.max, most);
  }

  Buffer buffer = std::move(stored);
  for (size_t i = stages_.size(); i-- > 0;) {
    if (!applied(i)) continue;
    auto done = stages_[i]->decode(std::move(buffer), decoded[i]);
    // ENOENT, of a library that is gone, would mean that the chunk is not stored.
    if (!done && done.error().code == ENOENT) done.error().code = EIO;
    if (!done) return done;
    buffer = *std::move(done);
  }
  if (chunk.exact && buffer.size() != *chunk.exact)
    return fail(EIO, "decoded to {} bytes, not {}", buffer.size(), *chunk.exact);
  if (buffer.size() > chunk.max) return fail(EIO, "decoded to {} bytes, more than {}", buffer.size(), chunk.max);
  return buffer;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to decode a chunk");
} catch (const std::exception& e) {
  return fail(EIO, "a chunk cannot be decoded: {}", e.what());
}

Result<EncodedChunk> Pipeline::encode(Bytes chunk) const try {
  if (chunk_.bytes && chunk.size() != *chunk_.bytes)
    return fail(EINVAL, "a chunk has {} bytes, not {}", *chunk_.bytes, chunk.size());
  EncodedChunk encoded;
  Bytes now = chunk;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = *stages_[i];
    Result<Buffer> out = stage.encode(now);
    if (!out && !(stage.optional && declines(out.error()))) return pass_on(out);
    if (!out) {
      encoded.filter_mask |= uint32_t{1} << i;
      continue;
    }
    encoded.bytes = *std::move(out);
    now = encoded.bytes.bytes();
  }
  if (now.data() == chunk.data()) {  // all filters were skipped
    CODECFS_ASSIGN(encoded.bytes, Buffer::copy_of(chunk));
  }
  return encoded;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to encode a chunk");
} catch (const std::exception& e) {
  return fail(EIO, "a chunk cannot be encoded: {}", e.what());
}

}  // namespace codecfs::filters
