#include "filters/codecs/zfp_stream.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "filters/codecs/number_types.h"

namespace codecfs::filters::codecs {
namespace {

constexpr size_t kHeaderBytes = (ZFP_HEADER_MAX_BITS + 7) / 8;
constexpr size_t kWord = 8;  // bytes, of the largest word that any libzfp reads
// libzfp does not check for the end of a stream. Decoders read less than this behind the bits of the blocks: words that
// are read ahead, and a test bit for each bit plane of the last block.
constexpr size_t kReadAhead = 64;

struct Close {
  void operator()(bitstream* stream) const { stream_close(stream); }
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
  void operator()(zfp_field* field) const { zfp_field_free(field); }
};
using BitStream = std::unique_ptr<bitstream, Close>;
using Field = std::unique_ptr<zfp_field, Close>;

/// A zfp_stream with its bits. Null members: no memory.
struct Stream {
  BitStream bits;
  std::unique_ptr<zfp_stream, Close> zfp;
};

std::unexpected<Error> no_memory() { return fail(ENOMEM, "no memory for libzfp"); }

Result<Stream> open_stream(std::byte* bytes, size_t size) {
  Stream stream;
  if (bytes != nullptr) stream.bits.reset(stream_open(bytes, size));
  stream.zfp.reset(zfp_stream_open(stream.bits.get()));
  if (stream.zfp == nullptr || (bytes != nullptr && stream.bits == nullptr)) return no_memory();
  if (bytes != nullptr) zfp_stream_rewind(stream.zfp.get());
  return stream;
}

Result<Field> make_field(const ZfpArray& array, void* elements) {
  std::array<size_t, 4> n{};  // the fastest first
  std::ranges::copy(array.lengths.rbegin(), array.lengths.rend(), n.begin());
  Field field;
  switch (array.lengths.size()) {
    case 1: field.reset(zfp_field_1d(elements, array.type, n[0])); break;
    case 2: field.reset(zfp_field_2d(elements, array.type, n[0], n[1])); break;
    case 3: field.reset(zfp_field_3d(elements, array.type, n[0], n[1], n[2])); break;
    case 4: field.reset(zfp_field_4d(elements, array.type, n[0], n[1], n[2], n[3])); break;
    default: return fail(EINVAL, "does not work on {} dimensions", array.lengths.size());
  }
  if (field == nullptr) return no_memory();
  return field;
}

void apply(const ZfpParameters& parameters, zfp_stream* stream) {
  zfp_stream_set_params(stream, parameters.minbits, parameters.maxbits, parameters.maxprec, parameters.minexp);
}

ZfpParameters parameters_of(const zfp_stream* stream) {
  ZfpParameters parameters;
  zfp_stream_params(stream, &parameters.minbits, &parameters.maxbits, &parameters.maxprec, &parameters.minexp);
  return parameters;
}

uint64_t blocks_of(const ZfpArray& array) {
  uint64_t blocks = 1;
  for (const uint64_t length : array.lengths) blocks *= (length + 3) / 4;
  return blocks;
}

unsigned values_of_block(const ZfpArray& array) { return 1U << (2 * array.lengths.size()); }

/// The most bits of a block: of each element its bit planes and a test bit, and a test bit of each plane, up to
/// maxbits; the exponent, which decoders read in any case; padding.
uint64_t max_block_bits(const ZfpParameters& parameters, const ZfpArray& array) {
  constexpr uint64_t kExponentBits = 32;  // more than any type has
  const uint64_t values = values_of_block(array);
  const uint64_t precision = std::min<uint64_t>(parameters.maxprec, zfp_type_size(array.type) * 8);
  const uint64_t bits = std::min<uint64_t>(values * (precision + 1) + precision, parameters.maxbits);
  return kExponentBits + std::max<uint64_t>(bits, parameters.minbits);
}

/// Bits in front of the bit planes of a block: what tells its form, exponent and precision. libzfp writes past the end
/// of its memory if maxbits is less.
unsigned first_bits(const ZfpParameters& parameters, zfp_type type) {
  switch (type) {
    case zfp_type_int32: return parameters.is_reversible() ? 5 : 1;
    case zfp_type_int64: return parameters.is_reversible() ? 6 : 1;
    case zfp_type_float: return parameters.is_reversible() ? 15 : 9;
    default: return parameters.is_reversible() ? 19 : 12;
  }
}

uint64_t bytes_of_bits(uint64_t bits) { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }
uint64_t whole_words(uint64_t bytes) { return (bytes + kWord - 1) / kWord * kWord; }

/// EINVAL for elements that libzfp does not encode in lossy modes.
template <class T>
Result<> check_lossy(Bytes elements) {
  for (size_t at = 0; at < elements.size(); at += sizeof(T)) {
    const T value = load_element<T>(elements.data() + at);
    if constexpr (std::floating_point<T>) {
      if (!std::isfinite(value))
        return fail(EINVAL, "element {} is {}: zfp stores only finite numbers, except in reversible mode",
                    at / sizeof(T), value);
    } else {
      constexpr T kMax = (std::numeric_limits<T>::max() >> 1) + 1;
      if (value > kMax || value < -kMax)
        return fail(EINVAL, "element {}, {}, is beyond {}, the most that zfp stores, except in reversible mode",
                    at / sizeof(T), value, kMax);
    }
  }
  return {};
}

Result<> check_elements(zfp_type type, Bytes elements) {
  switch (type) {
    case zfp_type_int32: return check_lossy<int32_t>(elements);
    case zfp_type_int64: return check_lossy<int64_t>(elements);
    case zfp_type_float: return check_lossy<float>(elements);
    default: return check_lossy<double>(elements);
  }
}

Result<Buffer> decode(const ZfpParameters& parameters, const ZfpArray& array, Bytes stream, bool has_header) {
  if (zfp_decoded_bytes(array) == 0 && stream.empty()) return Buffer::allocate(0);
  // Each block takes minbits at least, so the stream bounds what it can ask for.
  const uint64_t blocks = blocks_of(array);
  if (bytes_of_bits(blocks * parameters.minbits) > stream.size())
    return fail(EIO, "{} bytes are too few for {} blocks of {} bits", stream.size(), blocks, parameters.minbits);
  const uint64_t readable = kHeaderBytes + bytes_of_bits(blocks * max_block_bits(parameters, array)) + kReadAhead;
  CODECFS_ASSIGN(Buffer padded,
                 Buffer::allocate(whole_words(std::max<uint64_t>(readable, stream.size() + kReadAhead))));
  std::memcpy(padded.data(), stream.data(), stream.size());
  std::memset(padded.data() + stream.size(), 0, padded.size() - stream.size());

  CODECFS_ASSIGN(Buffer out, Buffer::allocate(zfp_decoded_bytes(array)));
  CODECFS_ASSIGN(const Field field, make_field(array, out.data()));
  CODECFS_ASSIGN(const Stream open, open_stream(padded.data(), padded.size()));
  if (has_header) {
    const Field told(zfp_field_alloc());
    if (told == nullptr) return no_memory();
    if (zfp_read_header(open.zfp.get(), told.get(), ZFP_HEADER_FULL) == 0) return fail(EIO, "has no header of zfp");
  } else {
    apply(parameters, open.zfp.get());
  }
  const size_t used = zfp_decompress(open.zfp.get(), field.get());
  if (used == 0) return fail(EIO, "libzfp cannot decode it");
  if (whole_words(used) != whole_words(stream.size()))
    return fail(EIO, "{} bytes, where the elements take {}", stream.size(), used);
  return out;
}

}  // namespace

ZfpParameters zfp_reversible() { return {.minexp = ZFP_MIN_EXP - 1}; }

Result<ZfpParameters> zfp_fixed_rate(double rate, zfp_type type, size_t rank) {
  constexpr double kMax = 128;  // twice what any element has
  if (!(rate > 0) || rate > kMax) return fail(EINVAL, "\"rate\" {} is not in (0, {}]", rate, kMax);
  CODECFS_ASSIGN(const Stream open, open_stream(nullptr, 0));
  zfp_stream_set_rate(open.zfp.get(), rate, type, static_cast<unsigned>(rank), zfp_false);
  return parameters_of(open.zfp.get());
}

Result<ZfpParameters> zfp_fixed_precision(int64_t precision) {
  if (precision < 1 || precision > ZFP_MAX_PREC)
    return fail(EINVAL, "\"precision\" {} is not in [1, {}]", precision, ZFP_MAX_PREC);
  return ZfpParameters{.maxprec = static_cast<unsigned>(precision)};
}

Result<ZfpParameters> zfp_fixed_accuracy(double tolerance, zfp_type type) {
  if (type != zfp_type_float && type != zfp_type_double)
    return fail(EINVAL, "fixed accuracy is a mode for floating-point numbers only");
  if (!(tolerance > 0) || std::isinf(tolerance)) return fail(EINVAL, "\"tolerance\" {} is not positive", tolerance);
  CODECFS_ASSIGN(const Stream open, open_stream(nullptr, 0));
  zfp_stream_set_accuracy(open.zfp.get(), tolerance);
  return parameters_of(open.zfp.get());
}

Result<ZfpParameters> zfp_expert(const ZfpParameters& parameters, zfp_type type) {
  const bool is_valid = parameters.minbits <= parameters.maxbits && parameters.minbits <= ZFP_MAX_BITS &&
                        parameters.maxbits >= first_bits(parameters, type) && parameters.maxprec >= 1 &&
                        parameters.maxprec <= ZFP_MAX_PREC;
  if (!is_valid)
    return fail(EINVAL, "\"minbits\" {}, \"maxbits\" {}, \"maxprec\" {} are not valid for this type of elements",
                parameters.minbits, parameters.maxbits, parameters.maxprec);
  return parameters;
}

uint64_t zfp_decoded_bytes(const ZfpArray& array) {
  uint64_t bytes = zfp_type_size(array.type);
  for (const uint64_t length : array.lengths) bytes *= length;
  return bytes;
}

uint64_t zfp_max_bytes(const ZfpParameters& parameters, const ZfpArray& array) {
  return whole_words(kHeaderBytes + bytes_of_bits(blocks_of(array) * max_block_bits(parameters, array)) + kWord);
}

bool is_fixed_size(const ZfpParameters& parameters, const ZfpArray& array, uint64_t bytes) {
  return parameters.minbits == parameters.maxbits &&
         whole_words(bytes_of_bits(blocks_of(array) * parameters.minbits)) == whole_words(bytes);
}

Result<Buffer> zfp_encode(const ZfpParameters& parameters, const ZfpArray& array, Bytes elements, bool has_header) {
  if (elements.size() != zfp_decoded_bytes(array))
    return fail(EINVAL, "{} bytes, where a chunk has {}", elements.size(), zfp_decoded_bytes(array));
  if (elements.empty()) return Buffer::allocate(0);
  if (!parameters.is_reversible()) CODECFS_TRY(check_elements(array.type, elements));
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(zfp_max_bytes(parameters, array)));
  CODECFS_ASSIGN(const Field field, make_field(array, const_cast<std::byte*>(elements.data())));  // which it reads
  CODECFS_ASSIGN(const Stream open, open_stream(out.data(), out.size()));
  apply(parameters, open.zfp.get());
  if (has_header && zfp_write_header(open.zfp.get(), field.get(), ZFP_HEADER_FULL) == 0)
    return fail(EINVAL, "zfp has no header for a chunk of this shape");
  const size_t size = zfp_compress(open.zfp.get(), field.get());
  if (size == 0 || size > out.size()) return fail(EIO, "libzfp cannot encode it");
  // A libzfp with words of 64 bits reads whole ones.
  const size_t padded = whole_words(size);
  std::memset(out.data() + size, 0, padded - size);
  out.truncate(padded);
  return out;
}

Result<Buffer> zfp_decode(const ZfpParameters& parameters, const ZfpArray& array, Bytes stream) {
  return decode(parameters, array, stream, false);
}

std::optional<ZfpHeader> read_zfp_header(Bytes bytes) {
  std::array<std::byte, kHeaderBytes + kReadAhead> start{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), kHeaderBytes)), start.begin());
  const Result<Stream> open = open_stream(start.data(), start.size());
  const Field field(zfp_field_alloc());
  if (!open || field == nullptr) return std::nullopt;
  const size_t bits = zfp_read_header(open->zfp.get(), field.get(), ZFP_HEADER_FULL);
  if (bits == 0 || bytes_of_bits(bits) > bytes.size()) return std::nullopt;
  return ZfpHeader{.mode = zfp_stream_compression_mode(open->zfp.get()),
                   .parameters = parameters_of(open->zfp.get()),
                   .rank = zfp_field_dimensionality(field.get())};
}

Result<Buffer> zfp_decode_with_header(const ZfpArray& array, Bytes stream) {
  if (zfp_decoded_bytes(array) == 0 && stream.empty()) return Buffer::allocate(0);
  std::array<std::byte, kHeaderBytes + kReadAhead> start{};
  std::ranges::copy(stream.first(std::min(stream.size(), kHeaderBytes)), start.begin());
  CODECFS_ASSIGN(const Stream open, open_stream(start.data(), start.size()));
  const Field field(zfp_field_alloc());
  if (field == nullptr) return no_memory();
  if (zfp_read_header(open.zfp.get(), field.get(), ZFP_HEADER_FULL) == 0) return fail(EIO, "has no header of zfp");
  ZfpArray told{.type = field->type, .lengths = {}};
  for (const size_t length : {field->nw, field->nz, field->ny, field->nx})
    if (length > 0) told.lengths.push_back(length);
  uint64_t count = 1;
  for (const uint64_t length : told.lengths)
    if (__builtin_mul_overflow(count, length, &count)) count = UINT64_MAX;
  const uint64_t expected = zfp_decoded_bytes(array) / zfp_type_size(array.type);
  if (told.type != array.type || told.lengths.empty() || count != expected)
    return fail(EIO, "its header tells {} elements of type {}, where a chunk has {} of type {}", count,
                static_cast<int>(told.type), expected, static_cast<int>(array.type));
  CODECFS_ASSIGN(const ZfpParameters parameters, zfp_expert(parameters_of(open.zfp.get()), array.type));
  return decode(parameters, told, stream, true);
}

}  // namespace codecfs::filters::codecs
