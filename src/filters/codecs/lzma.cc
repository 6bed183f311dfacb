// lzma: numcodecs "lzma", that is, Python's lzma module. Consecutive streams of the given format; trailing bytes that
// are not a stream are ignored, as Python does.
//
//   {"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": null}
//
// format: 0 either of the next two, 1 .xz, 2 .lzma (alone), 3 raw: then "filters" lists the filters, as [{"id": 3,
// "dist": 4}, {"id": 33, "preset": 6}] (ids and options of liblzma; missing options come from the preset). check: -1
// the format's default (CRC-64 in .xz, none in the others), else the id of liblzma. preset: 0..9, default 6; plus 2^31
// for the extreme variant. The encoder writes what Python's module writes for these members.

#include <lzma.h>

#include <algorithm>
#include <array>
#include <memory>

#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::lzma {
namespace {

constexpr uint64_t kMemoryLimit = uint64_t{256} << 20;       // the largest preset needs 65 MiB
constexpr uint64_t kEncoderMemoryLimit = uint64_t{1} << 30;  // the largest preset needs 674 MiB

enum class Format : int64_t { either = 0, xz = 1, alone = 2, raw = 3 };

/// liblzma's filters, with the options that they point to.
struct Chain {
  std::array<lzma_filter, LZMA_FILTERS_MAX + 1> filters{};
  std::array<lzma_options_lzma, LZMA_FILTERS_MAX> lzma{};
  std::array<lzma_options_delta, LZMA_FILTERS_MAX> delta{};
  std::array<lzma_options_bcj, LZMA_FILTERS_MAX> bcj{};
};

Result<> read_option(const Json& filter, const char* key, uint32_t& option, int64_t low, int64_t high) {
  CODECFS_ASSIGN(const int64_t value, integer_field(filter, key, option, low, high));
  option = static_cast<uint32_t>(value);
  return {};
}

Result<> read_lzma_options(const Json& filter, lzma_options_lzma& options) {
  CODECFS_ASSIGN(const int64_t preset, integer_field(filter, "preset", LZMA_PRESET_DEFAULT, 0, UINT32_MAX));
  if (lzma_lzma_preset(&options, static_cast<uint32_t>(preset)) != 0)
    return fail(EINVAL, "\"preset\": {} is not one of LZMA", preset);
  CODECFS_TRY(read_option(filter, "dict_size", options.dict_size, 0, UINT32_MAX));
  CODECFS_TRY(read_option(filter, "lc", options.lc, 0, LZMA_LCLP_MAX));
  CODECFS_TRY(read_option(filter, "lp", options.lp, 0, LZMA_LCLP_MAX));
  CODECFS_TRY(read_option(filter, "pb", options.pb, 0, LZMA_PB_MAX));
  // These are for the encoder only.
  CODECFS_ASSIGN(const int64_t mode, integer_field(filter, "mode", options.mode, 0, INT32_MAX));
  options.mode = static_cast<lzma_mode>(mode);
  CODECFS_TRY(read_option(filter, "nice_len", options.nice_len, 0, UINT32_MAX));
  CODECFS_ASSIGN(const int64_t finder, integer_field(filter, "mf", options.mf, 0, INT32_MAX));
  options.mf = static_cast<lzma_match_finder>(finder);
  CODECFS_TRY(read_option(filter, "depth", options.depth, 0, UINT32_MAX));
  return {};
}

Result<std::shared_ptr<const Chain>> read_chain(const Json& codec) {
  const auto found = codec.find("filters");
  if (found == codec.end() || !found->is_array() || found->empty() || found->size() > LZMA_FILTERS_MAX)
    return fail(EINVAL, "\"filters\" must be a list of 1 to {} here", LZMA_FILTERS_MAX);
  auto chain = std::make_shared<Chain>();
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& filter = (*found)[i];
    const auto id = filter.is_object() ? filter.find("id") : filter.end();
    if (!filter.is_object() || id == filter.end() || !id->is_number_integer())
      return fail(EINVAL, "\"filters\": {} has no id", print_json(filter));
    chain->filters[i].id = id->get<uint64_t>();
    switch (chain->filters[i].id) {
      case LZMA_FILTER_LZMA1:
      case LZMA_FILTER_LZMA2:
        CODECFS_TRY(read_lzma_options(filter, chain->lzma[i]));
        chain->filters[i].options = &chain->lzma[i];
        break;
      case LZMA_FILTER_DELTA: {
        chain->delta[i].type = LZMA_DELTA_TYPE_BYTE;
        chain->delta[i].dist = 1;
        CODECFS_TRY(read_option(filter, "dist", chain->delta[i].dist, LZMA_DELTA_DIST_MIN, LZMA_DELTA_DIST_MAX));
        chain->filters[i].options = &chain->delta[i];
        break;
      }
      default: {  // the branch converters; liblzma refuses what it does not know
        CODECFS_TRY(read_option(filter, "start_offset", chain->bcj[i].start_offset, 0, UINT32_MAX));
        chain->filters[i].options = &chain->bcj[i];
      }
    }
  }
  chain->filters[found->size()].id = LZMA_VLI_UNKNOWN;
  return chain;
}

Result<> check_memory(const Chain& chain) {
  const uint64_t memory = lzma_raw_decoder_memusage(chain.filters.data());
  if (memory == UINT64_MAX) return fail(EINVAL, "liblzma does not support this combination of filters");
  if (memory > kMemoryLimit)
    return fail(EINVAL, "decoding needs {} MiB, more than the {} MiB allowed", memory >> 20, kMemoryLimit >> 20);
  return {};
}

struct Stream {
  lzma_stream state = LZMA_STREAM_INIT;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { lzma_end(&state); }
};

lzma_ret start(lzma_stream& stream, Format format, const Chain* chain) {
  switch (format) {
    case Format::either: return lzma_auto_decoder(&stream, kMemoryLimit, 0);
    case Format::xz: return lzma_stream_decoder(&stream, kMemoryLimit, 0);
    case Format::alone: return lzma_alone_decoder(&stream, kMemoryLimit);
    case Format::raw: return lzma_raw_decoder(&stream, chain->filters.data());
  }
  return LZMA_PROG_ERROR;
}

/// Decodes one stream and removes it from the front of `in`. False if there is none.
Result<bool> decode_stream(Bytes& in, Format format, const Chain* chain, OutputBuffer& out) {
  Stream stream;
  if (const lzma_ret result = start(stream.state, format, chain); result != LZMA_OK)
    return fail(result == LZMA_MEM_ERROR ? ENOMEM : EIO, "liblzma cannot start ({})", static_cast<int>(result));
  stream.state.next_in = reinterpret_cast<const uint8_t*>(in.data());
  stream.state.avail_in = in.size();
  for (;;) {
    CODECFS_ASSIGN(const MutableBytes room, out.room());
    const size_t before = stream.state.avail_in;
    stream.state.next_out = reinterpret_cast<uint8_t*>(room.data());
    stream.state.avail_out = room.size();
    const lzma_ret result = lzma_code(&stream.state, LZMA_RUN);
    const size_t produced = room.size() - stream.state.avail_out;
    CODECFS_TRY(out.wrote(produced));
    switch (result) {
      case LZMA_OK: break;
      case LZMA_STREAM_END: in = in.last(stream.state.avail_in); return true;
      case LZMA_FORMAT_ERROR: return false;
      case LZMA_MEM_ERROR: return fail(ENOMEM, "no memory for the decoder");
      case LZMA_MEMLIMIT_ERROR:
        return fail(EIO, "decoding needs {} MiB, more than the {} MiB allowed", lzma_memusage(&stream.state) >> 20,
                    kMemoryLimit >> 20);
      case LZMA_BUF_ERROR: return fail(EIO, "the compressed data is truncated");
      default: return fail(EIO, "the compressed data is damaged");
    }
    if (produced == 0 && before == stream.state.avail_in) return fail(EIO, "the compressed data is truncated");
  }
}

Result<Buffer> decode(const Buffer& in, Format format, const Chain* chain, const SizeBound& bound) {
  CODECFS_ASSIGN(OutputBuffer out, OutputBuffer::make(bound, in.size()));
  Bytes rest = in.bytes();
  for (bool first = true; first || (!rest.empty() && out.size() < bound.max); first = false) {
    CODECFS_ASSIGN(const bool decoded, decode_stream(rest, format, chain, out));
    if (!decoded && first) return fail(EIO, "this is not LZMA data of the stated format");
    if (!decoded || format == Format::raw) break;
  }
  return out.take();
}

/// Parameters of the encoder, parsed apart from those of the decoder, because a chunk can be decoded without them.
struct EncoderSettings {
  Format format = Format::xz;
  lzma_check check = LZMA_CHECK_NONE;
  std::shared_ptr<const Chain> chain;  // owns the options that the filters point to
};

bool has(const Json& codec, const char* key) {
  const auto found = codec.find(key);
  return found != codec.end() && !found->is_null();
}

Result<EncoderSettings> read_encoder(const Json& codec, Format format) {
  EncoderSettings settings;
  settings.format = format;
  if (format == Format::either) return fail(EINVAL, "\"format\": 0 is for decoding only");
  CODECFS_ASSIGN(const int64_t check, integer_field(codec, "check", -1, -1, LZMA_CHECK_ID_MAX));
  if (check > 0 && format != Format::xz) return fail(EINVAL, "\"check\": {} is for the .xz format only", check);
  if (format == Format::xz) settings.check = check == -1 ? LZMA_CHECK_CRC64 : static_cast<lzma_check>(check);
  if (lzma_check_is_supported(settings.check) == 0) return fail(EINVAL, "\"check\": {} is not known", check);
  if (has(codec, "filters")) {
    if (has(codec, "preset")) return fail(EINVAL, "\"preset\" and \"filters\" exclude each other");
    CODECFS_ASSIGN(settings.chain, read_chain(codec));
    if (format == Format::alone &&
        (settings.chain->filters[0].id != LZMA_FILTER_LZMA1 || settings.chain->filters[1].id != LZMA_VLI_UNKNOWN))
      return fail(EINVAL, "the .lzma format takes one filter, LZMA1");
    return settings;
  }
  if (format == Format::raw) return fail(EINVAL, "the raw format needs \"filters\"");
  CODECFS_ASSIGN(const int64_t preset, integer_field(codec, "preset", LZMA_PRESET_DEFAULT, 0, UINT32_MAX));
  auto chain = std::make_shared<Chain>();
  if (lzma_lzma_preset(&chain->lzma[0], static_cast<uint32_t>(preset)) != 0)
    return fail(EINVAL, "\"preset\": {} is not one of LZMA", preset);
  chain->filters[0] = {.id = format == Format::alone ? LZMA_FILTER_LZMA1 : LZMA_FILTER_LZMA2,
                       .options = &chain->lzma[0]};
  chain->filters[1].id = LZMA_VLI_UNKNOWN;
  settings.chain = std::move(chain);
  return settings;
}

lzma_ret start_encoder(lzma_stream& stream, const EncoderSettings& settings) {
  const lzma_filter* const filters = settings.chain->filters.data();
  switch (settings.format) {
    case Format::xz: return lzma_stream_encoder(&stream, filters, settings.check);
    case Format::alone: return lzma_alone_encoder(&stream, static_cast<const lzma_options_lzma*>(filters[0].options));
    case Format::raw: return lzma_raw_encoder(&stream, filters);
    case Format::either: break;
  }
  return LZMA_PROG_ERROR;
}

/// Creates an encoder for each chunk: depending on its preset it takes 1 to 674 MiB, too much to keep per thread. It
/// touches only what the data needs, and LZMA is the slowest codec anyway.
Result<Buffer> encode(Bytes in, const EncoderSettings& settings) {
  // .xz stores incompressible data; .lzma and raw streams grow by their range coder.
  const size_t most = in.size() + in.size() / 8 + 4096;
  const uint64_t memory = lzma_raw_encoder_memusage(settings.chain->filters.data());
  if (memory != UINT64_MAX && memory > kEncoderMemoryLimit)
    return fail(EINVAL, "encoding needs {} MiB, more than the {} MiB allowed", memory >> 20, kEncoderMemoryLimit >> 20);
  return encode_whole(most, [&](MutableBytes room) -> Result<size_t> {
    Stream stream;
    switch (const lzma_ret result = start_encoder(stream.state, settings)) {
      case LZMA_OK: break;
      case LZMA_MEM_ERROR: return fail(ENOMEM, "no memory for the encoder");
      default: return fail(EINVAL, "liblzma refuses these filters ({})", static_cast<int>(result));
    }
    stream.state.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream.state.avail_in = in.size();
    stream.state.next_out = reinterpret_cast<uint8_t*>(room.data());
    stream.state.avail_out = room.size();
    switch (const lzma_ret result = lzma_code(&stream.state, LZMA_FINISH)) {
      case LZMA_STREAM_END: return room.size() - stream.state.avail_out;
      case LZMA_MEM_ERROR: return fail(ENOMEM, "no memory for the encoder");
      default: return fail(EINVAL, "liblzma cannot encode the data ({})", static_cast<int>(result));
    }
  });
}

}  // namespace

Filter make_filter() {
  return {
      .name = "lzma",
      .aliases = {"xz"},
      .codec = "lzma",
      .library = std::string("liblzma ") + lzma_version_string(),
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_ASSIGN(const int64_t format, integer_field(stage.codec, "format", 1, 0, 3));
        CODECFS_TRY(read_encoder(stage.codec, static_cast<Format>(format)));
        return {};
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const int64_t number, integer_field(context.stage.codec, "format", 1, 0, 3));
        const auto format = static_cast<Format>(number);
        std::shared_ptr<const Chain> chain;
        if (format == Format::raw) {
          CODECFS_ASSIGN(chain, read_chain(context.stage.codec));
          CODECFS_TRY(check_memory(*chain));
        }
        Result<EncoderSettings> encoder = read_encoder(context.stage.codec, format);
        return Coder{.decode = [format, chain](const Buffer& in,
                                               const SizeBound& out) { return decode(in, format, chain.get(), out); },
                     .encode = [encoder = std::move(encoder)](Bytes in) -> Result<Buffer> {
                       if (!encoder) return std::unexpected(encoder.error());
                       return encode(in, *encoder);
                     },
                     .encoded = compressed_size};
      },
  };
}

}  // namespace codecfs::filters::codecs::lzma
