// Sources: the set_local functions of H5Zszip.c, H5Znbit.c and H5Zscaleoffset.c (HDF5), lzf_filter.c (h5py),
// blosc_filter.c (hdf5-blosc), blosc2_filter.c (PyTables), bshuf_h5filter.c (bitshuffle), H5Zzfp.c (H5Z-ZFP),
// H5Z_SZ3.cpp (SZ3 3.1), H5Zbitgroom.c, H5Zbitround.c and H5Zgranularbr.c (CCR).

#include "filters/core/parameter_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "filters/codecs/zfp_stream.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

using Values = std::span<const uint32_t>;
using Names = std::vector<NamedParameter>;
using Words = std::span<const std::string_view>;

/// A code as its word; as a number if there is none for it.
JsonValue word_of(uint32_t code, Words words) {
  if (code < words.size() && !words[code].empty()) return std::string(words[code]);
  return code;
}

/// JSON has no form for NaN and infinity.
JsonValue number_of(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return value;
}

double float_of(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
double double_of(uint32_t high, uint32_t low) { return std::bit_cast<double>(uint64_t{high} << 32 | low); }

constexpr std::array<std::string_view, 6> kBloscCompressors{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
constexpr std::array<std::string_view, 2> kByteOrders{"little", "big"};

Names level(Values values) {
  if (values.size() != 1) return {};
  return {{"level", values[0]}};
}

Names shuffle(Values values) {
  if (values.size() != 1) return {};
  return {{"element bytes", values[0]}};
}

// [mask, pixels of a block, bits of a pixel, pixels of a scanline]; the first two are the user's.
Names szip(Values values) {
  constexpr uint32_t kK13 = 1;
  constexpr uint32_t kHardware = 2;
  constexpr uint32_t kEntropy = 4;
  constexpr uint32_t kLittle = 8;
  constexpr uint32_t kBig = 16;
  constexpr uint32_t kNeighbour = 32;
  if (values.size() != 2 && values.size() != 4) return {};
  const uint32_t mask = values[0];
  Names names;
  if ((mask & (kEntropy | kNeighbour)) != 0)
    names.push_back({"coding", (mask & kNeighbour) != 0 ? "nearest neighbour" : "entropy"});
  names.push_back({"block pixels", values[1]});
  if (values.size() == 2) return names;
  names.push_back({"pixel bits", values[2]});
  names.push_back({"scanline pixels", values[3]});
  if ((mask & (kLittle | kBig)) != 0) names.push_back({"byte order", (mask & kBig) != 0 ? "big" : "little"});
  if ((mask & (kK13 | kHardware)) != 0) names.push_back({"mode", (mask & kK13) != 0 ? "K13" : "hardware"});
  return names;
}

// [parameters, 1: every bit is used, elements of a chunk, class, bytes of an element, ...]; of numbers also the byte
// order, the bits and the first one.
Names nbit(Values values) {
  constexpr std::array<std::string_view, 5> kClasses{"", "number", "array", "compound", "other"};
  constexpr uint32_t kNumber = 1;
  if (values.size() < 5 || values[0] != values.size()) return {};
  const bool is_number = values[3] == kNumber;
  if (is_number && values.size() != 8) return {};
  Names names{{"type", word_of(values[3], kClasses)}};
  if (is_number) {
    names.push_back({"bits", values[6]});
    names.push_back({"first bit", values[7]});
  }
  names.push_back({"packed", values[1] == 0 ? "yes" : "no"});
  names.push_back({"element bytes", values[4]});
  names.push_back({"chunk elements", values[2]});
  if (is_number) names.push_back({"byte order", word_of(values[5], kByteOrders)});
  return names;
}

/// The fill value of scale-offset: from the least significant word on.
JsonValue scale_offset_fill(Values words, bool is_float, uint32_t bytes, bool is_signed) {
  const uint64_t bits = bytes > 4 ? uint64_t{words[1]} << 32 | words[0] : words[0];
  if (is_float) return number_of(bytes > 4 ? std::bit_cast<double>(bits) : float_of(words[0]));
  if (!is_signed) return bits;
  const unsigned unused = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << unused) >> unused;
}

// [method, digits or bits, elements of a chunk, class, bytes of an element, sign, byte order, whether there is a fill
// value, fill value, ...]; the first two are the user's.
Names scale_offset(Values values) {
  constexpr std::array<std::string_view, 3> kMethods{"decimal digits", "exponent", "integers"};
  constexpr uint32_t kIntegers = 2;
  constexpr std::array<std::string_view, 2> kTypes{"integer", "float"};
  if (values.size() != 2 && values.size() != 20) return {};
  Names names{{"method", word_of(values[0], kMethods)}};
  if (values[0] != kIntegers)
    names.push_back({"digits", static_cast<int32_t>(values[1])});
  else if (values[1] == 0)
    names.push_back({"bits", "as many as each chunk needs"});
  else
    names.push_back({"bits", values[1]});
  if (values.size() == 2) return names;
  const uint32_t bytes = values[4];
  names.push_back({"chunk elements", values[2]});
  names.push_back({"type", word_of(values[3], kTypes)});
  if (values[3] == 0) names.push_back({"signed", values[5] == 0 ? "no" : "yes"});
  names.push_back({"element bytes", bytes});
  names.push_back({"byte order", word_of(values[6], kByteOrders)});
  const bool has_number =
      values[3] <= 1 && (bytes == 4 || bytes == 8 || (values[3] == 0 && (bytes == 1 || bytes == 2)));
  if (values[7] == 1 && has_number)
    names.push_back({"fill value", scale_offset_fill(values.subspan(8), values[3] == 1, bytes, values[5] != 0)});
  return names;
}

// [filter revision, LZF version, bytes of a chunk].
Names lzf(Values values) {
  if (values.size() != 3) return {};
  return {{"chunk bytes", values[2]},
          {"filter revision", values[0]},
          {"LZF version", fmt::format("{}.{}", values[1] >> 8, values[1] & 0xff)}};
}

// [filter revision, format version, bytes of an element, bytes of a chunk, level, shuffle, compressor]; netCDF and Zarr
// have [0, 0, 0, bytes of a block, ...].
Names blosc(Values values) {
  constexpr std::array<std::string_view, 3> kShuffles{"none", "bytes", "bits"};
  if (values.size() < 4 || values.size() > 7) return {};
  Names names;
  if (values.size() > 6) names.push_back({"compressor", word_of(values[6], kBloscCompressors)});
  if (values.size() > 4) names.push_back({"level", values[4]});
  if (values.size() > 5)
    names.push_back({"shuffle", values[5] == UINT32_MAX ? JsonValue("automatic") : word_of(values[5], kShuffles)});
  if (values[2] == 0) {
    if (values[3] != 0) names.push_back({"block bytes", values[3]});
    return names;
  }
  names.push_back({"element bytes", values[2]});
  names.push_back({"chunk bytes", values[3]});
  names.push_back({"filter revision", values[0]});
  names.push_back({"format version", values[1]});
  return names;
}

// [block bytes, 0: 1 GiB].
Names lz4(Values values) {
  if (values.size() != 1) return {};
  return {{"block bytes", values[0] == 0 ? uint32_t{1} << 30 : values[0]}};
}

// [major, minor, bytes of an element, elements of a block, compression, level].
Names bitshuffle(Values values) {
  constexpr std::array<std::string_view, 4> kCompressors{"none", "", "lz4", "zstd"};
  if (values.size() < 3 || values.size() > 6) return {};
  Names names{{"compressor", word_of(values.size() > 4 ? values[4] : 0, kCompressors)}};
  if (values.size() > 5) names.push_back({"level", values[5]});
  if (values.size() > 3 && values[3] != 0)
    names.push_back({"block elements", values[3]});
  else
    names.push_back({"block elements", "automatic"});
  names.push_back({"element bytes", values[2]});
  names.push_back({"version", fmt::format("{}.{}", values[0], values[1])});
  return names;
}

/// The hexadecimal digits of a version: 0x1012 is 1.0.1.2, and 0x1010 is 1.0.1.
std::string version_of(uint32_t digits, int count) {
  std::string version;
  for (int i = count; i-- > 0;) {
    const uint32_t digit = digits >> (4 * i) & 0xf;
    if (i == 0 && count == 4 && digit == 0) break;
    version += fmt::format("{}{}", version.empty() ? "" : ".", digit);
  }
  return version;
}

// [versions of zfp, the codec and the filter, zfp's own header of a stream].
Names zfp(Values values) {
  if (values.size() < 2) return {};
  std::vector<std::byte> bytes;
  for (const uint32_t value : values.subspan(1))
    for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(value >> shift));
  const std::optional<codecs::ZfpHeader> header = codecs::read_zfp_header(bytes);
  if (!header) return {};
  const codecs::ZfpParameters& of = header->parameters;
  Names names;
  switch (header->mode) {
    case zfp_mode_fixed_rate:
      names = {{"mode", "fixed rate"}, {"element bits", std::ldexp(of.maxbits, -2 * static_cast<int>(header->rank))}};
      break;
    case zfp_mode_fixed_precision: names = {{"mode", "fixed precision"}, {"bit planes", of.maxprec}}; break;
    case zfp_mode_fixed_accuracy:
      names = {{"mode", "fixed accuracy"}, {"tolerance", std::ldexp(1.0, of.minexp)}};
      break;
    case zfp_mode_reversible: names = {{"mode", "reversible"}}; break;
    default:
      names = {{"mode", "expert"},
               {"minbits", of.minbits},
               {"maxbits", of.maxbits},
               {"maxprec", of.maxprec},
               {"minexp", of.minexp}};
  }
  names.push_back({"zfp version", version_of(values[0] >> 16, 4)});
  names.push_back({"filter version", version_of(values[0] & 0xfff, 3)});
  return names;
}

Names zstd(Values values) {
  if (values.size() != 1) return {};
  return {{"level", static_cast<int32_t>(values[0])}};
}

// [digits or bits, bytes of an element, whether there is a missing value, missing value in two words].
Names quantize(Values values, const char* kept) {
  if (values.size() != 5) return {};
  Names names{{kept, values[0]}, {"element bytes", values[1]}};
  if (values[2] != 0 && values[1] == 4) names.push_back({"missing value", number_of(float_of(values[3]))});
  if (values[2] != 0 && values[1] == 8) names.push_back({"missing value", number_of(double_of(values[4], values[3]))});
  return names;
}

// [dimensions, type, lengths, mode, absolute, relative, L2 norm, PSNR]: each bound as the halves of a double. The
// numbers of SZ3 3.2 are others, and begin with one that is no number of dimensions.
Names sz3(Values values) {
  constexpr std::array<std::string_view, 10> kTypes{"float32", "float64", "uint8", "int8",   "uint16",
                                                    "int16",   "uint32",  "int32", "uint64", "int64"};
  constexpr std::array<std::string_view, 6> kModes{
      "absolute", "relative", "PSNR", "L2 norm", "absolute and relative", "absolute or relative"};
  struct Bound {
    const char* name;
    unsigned modes;  // that use it, as bits
  };
  constexpr std::array<Bound, 4> kBounds{
      {{"absolute", 0b110001}, {"relative", 0b110010}, {"L2 norm", 0b001000}, {"PSNR", 0b000100}}};
  constexpr size_t kErrors = 9;
  if (values.size() < 4 || values[0] < 1 || values[0] > 5 || values[1] >= kTypes.size()) return {};
  const size_t rank = values[0];
  const size_t lengths = std::max<size_t>(rank, 2);  // that of a single dimension has 64 bits
  if (values.size() != 2 + lengths + kErrors) return {};
  const Values errors = values.subspan(2 + lengths);
  if (errors[0] >= kModes.size()) return {};
  Names names{{"error bound", word_of(errors[0], kModes)}};
  for (size_t i = 0; i < kBounds.size(); ++i)
    if ((kBounds[i].modes >> errors[0] & 1U) != 0)
      names.push_back({kBounds[i].name, number_of(double_of(errors[1 + 2 * i], errors[2 + 2 * i]))});
  names.push_back({"type", word_of(values[1], kTypes)});
  names.push_back({"dimensions", values[0]});
  return names;
}

// [filter revision, bytes of a block, bytes of an element, bytes of a chunk, level, filter, compressor, dimensions,
// chunk shape]; the last two where there is more than one dimension.
Names blosc2(Values values) {
  constexpr std::array<std::string_view, 5> kShuffles{"none", "bytes", "bits", "delta", "truncated precision"};
  if (values.size() < 4 || (values.size() > 7 && values.size() != 8 + size_t{values[7]})) return {};
  Names names;
  // Blosc2 has no Snappy.
  if (values.size() > 6)
    names.push_back({"compressor", values[6] == 3 ? JsonValue(values[6]) : word_of(values[6], kBloscCompressors)});
  if (values.size() > 4) names.push_back({"level", values[4]});
  if (values.size() > 5) names.push_back({"shuffle", word_of(values[5], kShuffles)});
  if (values[1] != 0)
    names.push_back({"block bytes", values[1]});
  else
    names.push_back({"block bytes", "automatic"});
  names.push_back({"element bytes", values[2]});
  names.push_back({"chunk bytes", values[3]});
  if (values.size() > 8) {
    std::string shape;
    for (const uint32_t length : values.subspan(8)) shape += fmt::format("{}{}", shape.empty() ? "" : " × ", length);
    names.push_back({"chunk shape", shape});
  }
  names.push_back({"filter revision", values[0]});
  return names;
}

}  // namespace

std::vector<NamedParameter> name_parameters(const FilterStage& stage) {
  const Values values = stage.parameters;
  switch (stage.id) {
    case 1: return level(values);
    case 2: return shuffle(values);
    case 4: return szip(values);
    case 5: return nbit(values);
    case 6: return scale_offset(values);
    case 307: return level(values);
    case 32000: return lzf(values);
    case 32001: return blosc(values);
    case 32004: return lz4(values);
    case 32008: return bitshuffle(values);
    case 32013: return zfp(values);
    case 32015: return zstd(values);
    case 32022:  // CCR's BitRound has BitGroom's number: only the name in the file tells digits from bits
      if (stage.name.starts_with("BitGroom")) return quantize(values, "significant digits");
      if (stage.name.starts_with("BitRound")) return quantize(values, "significant bits");
      return {};
    case 32023: return quantize(values, "significant digits");
    case 32024: return sz3(values);
    case 32026: return blosc2(values);
    default: return {};
  }
}

std::string parameters_text(std::span<const NamedParameter> parameters) {
  std::string text;
  for (const NamedParameter& parameter : parameters) {
    const Json& value = *parameter.value;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", parameter.name,
                        value.is_string() ? value.get<std::string>() : print_json(value));
  }
  return text;
}

Json parameters_json(std::span<const NamedParameter> parameters) {
  Json json = Json::object();
  for (const NamedParameter& parameter : parameters) {
    std::string key = parameter.name;
    std::ranges::replace(key, ' ', '_');
    json[key] = *parameter.value;
  }
  return json;
}

}  // namespace codecfs::filters
