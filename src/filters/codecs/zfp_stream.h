#pragma once
// The common part of the codecs zfp and zfpy: streams of libzfp, with and without its header.
//
//   header (zfpy): "zfp" | codec version | sizes and type of the array | mode          96 or 148 bits
//   blocks of 4^rank elements, in order, each of minbits to maxbits bits               padded to whole bytes at the end
//
// libzfp reads and writes words of 8 or 64 bits, which Debian and others choose differently. The words are
// little-endian and the streams equal, but for zeros at the end.

#include <zfp.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::filters::codecs {

/// All that a mode of zfp is, see "expert mode" in its documentation.
struct ZfpParameters {
  unsigned minbits = ZFP_MIN_BITS;
  unsigned maxbits = ZFP_MAX_BITS;
  unsigned maxprec = ZFP_MAX_PREC;
  int minexp = ZFP_MIN_EXP;

  [[nodiscard]] bool is_reversible() const { return minexp < ZFP_MIN_EXP; }
  bool operator==(const ZfpParameters&) const = default;
};

ZfpParameters zfp_reversible();
/// `rate`: bits per element, in blocks of this rank. EINVAL.
Result<ZfpParameters> zfp_fixed_rate(double rate, zfp_type type, size_t rank);
/// `precision`: bit planes. EINVAL.
Result<ZfpParameters> zfp_fixed_precision(int64_t precision);
/// EINVAL for a tolerance that is not positive, and for integers.
Result<ZfpParameters> zfp_fixed_accuracy(double tolerance, zfp_type type);
/// EINVAL.
Result<ZfpParameters> zfp_expert(const ZfpParameters& parameters, zfp_type type);

/// An array of elements in native byte order.
struct ZfpArray {
  zfp_type type = zfp_type_none;
  std::vector<uint64_t> lengths;  // in C order, 1 to 4 of them
};

/// What a header says.
struct ZfpHeader {
  zfp_mode mode = zfp_mode_null;
  ZfpParameters parameters;
  size_t rank = 0;
};
/// None if the bytes do not begin with a header.
std::optional<ZfpHeader> read_zfp_header(Bytes bytes);

/// Bytes of the array.
uint64_t zfp_decoded_bytes(const ZfpArray& array);
/// The most bytes of its stream, with a header.
uint64_t zfp_max_bytes(const ZfpParameters& parameters, const ZfpArray& array);
/// Whether these are the bytes of a stream in which each block has minbits bits, as many as maxbits.
bool is_fixed_size(const ZfpParameters& parameters, const ZfpArray& array, uint64_t bytes);

/// Encodes without a header, or with one. EINVAL for elements that would not decode to something close: in lossy modes
/// NaN, infinity, and integers of more than 2^30 or 2^62. ENOMEM.
Result<Buffer> zfp_encode(const ZfpParameters& parameters, const ZfpArray& array, Bytes elements, bool has_header);
/// Decodes a stream without a header. EIO, ENOMEM.
Result<Buffer> zfp_decode(const ZfpParameters& parameters, const ZfpArray& array, Bytes stream);
/// Decodes a stream with a header, which must tell this type and as many elements. EIO, ENOMEM.
Result<Buffer> zfp_decode_with_header(const ZfpArray& array, Bytes stream);

}  // namespace codecfs::filters::codecs
