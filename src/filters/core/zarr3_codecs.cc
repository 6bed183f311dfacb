#include "filters/core/zarr3_codecs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "model/json.h"
#include "model/zarr3_type.h"

namespace codecfs::filters {
namespace {

constexpr std::string_view kNumcodecs = "numcodecs.";
constexpr std::string_view kOnlyZarr3 = "zarr3:";
constexpr size_t kMaxCodecs = 32;

constexpr std::array<std::string_view, 3> kBloscShuffles = {"noshuffle", "shuffle", "bitshuffle"};

/// Ids of codecs that map arrays to arrays.
constexpr std::string_view kArrayToArray[] = {
    "delta",    "fixedscaleoffset", "quantize",           "bitround",     "astype",
    "packbits", "zarr3:cast_value", "zarr3:scale_offset", "zarr3:reshape"};
/// Those of them that treat each element alone, so that it does not matter in which order the elements are.
constexpr std::string_view kElementwise[] = {"fixedscaleoffset", "quantize",         "bitround",
                                             "astype",           "zarr3:cast_value", "zarr3:scale_offset"};
/// Codecs that Zarr v3 names as numcodecs does.
constexpr std::string_view kOfBoth[] = {"gzip", "zstd", "blosc", "crc32c", "bitround"};
/// Codecs of numcodecs that zarr-python has as "numcodecs.NAME".
constexpr std::string_view kOfNumcodecs[] = {"zlib",       "shuffle",
                                             "fletcher32", "jenkins_lookup3",
                                             "delta",      "fixedscaleoffset",
                                             "quantize",   "astype",
                                             "packbits",   "lz4",
                                             "bz2",        "lzma",
                                             "crc32",      "adler32",
                                             "zfpy",       "pcodec"};
/// Names of codecs that map an array to bytes, but for sharding_indexed.
constexpr std::string_view kArrayToBytes[] = {"bytes",    "vlen-utf8", "vlen-bytes",     "vlen-array",
                                              "packbits", "zfp",       "numcodecs.zfpy", "numcodecs.pcodec",
                                              "pcodec",   "zfpy",      "packbits"};

template <size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string_view id_of(const FilterStage& stage) {
  if (!stage.codec->is_object()) return {};
  const auto id = stage.codec->find("id");
  return id != stage.codec->end() && id->is_string() ? std::string_view(id->get_ref<const std::string&>()) : "";
}

struct NamedCodec {
  std::string name;
  Json configuration = Json::object();
};

/// "NAME", or {"name": NAME, "configuration": {...}}.
Result<NamedCodec> parse_named(const Json& codec) {
  const auto refuse = [&] { return fail(EINVAL, "\"codecs\": {} is not a codec", print_json(codec)); };
  if (codec.is_string()) return NamedCodec{codec.get<std::string>()};
  if (!codec.is_object()) return refuse();
  NamedCodec named;
  for (const auto& [key, value] : codec.items()) {
    if (key == "name" && value.is_string()) {
      named.name = value.get<std::string>();
    } else if (key == "configuration" && value.is_object()) {
      named.configuration = value;
    } else if (key != "must_understand" || !value.is_boolean()) {
      return refuse();
    }
  }
  if (named.name.empty()) return refuse();
  return named;
}

/// The order of axes that a codec "transpose" describes.
Result<std::vector<size_t>> parse_order(const Json& configuration, size_t rank) {
  const Json given = configuration.value("order", Json());
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  if (given == "C") return order;
  if (given == "F") {
    std::ranges::reverse(order);
    return order;
  }
  std::vector<size_t> axes;
  if (given.is_array())
    for (const Json& axis : given)
      if (axis.is_number_unsigned()) axes.push_back(axis.get<size_t>());
  if (!given.is_array() || axes.size() != given.size() || axes.size() != rank ||
      !std::ranges::is_permutation(axes, order))
    return fail(EINVAL, "\"codecs\": \"order\" {} of transpose is not an order of {} axes", print_json(given), rank);
  return axes;
}

/// First `first`, then `second`.
std::vector<size_t> compose(const std::vector<size_t>& first, const std::vector<size_t>& second) {
  if (first.empty()) return second;
  std::vector<size_t> both;
  both.reserve(second.size());
  for (const size_t axis : second) both.push_back(first[axis]);
  return both;
}

Result<std::optional<ByteOrder>> parse_endian(const Json& configuration) {
  const Json endian = configuration.value("endian", Json());
  if (endian == "little") return ByteOrder::little;
  if (endian == "big") return ByteOrder::big;
  if (endian.is_null()) return std::nullopt;
  return fail(EINVAL, "\"codecs\": \"endian\" {} is neither little nor big", print_json(endian));
}

/// The JSON with which numcodecs describes the codec.
Json numcodecs_form(const NamedCodec& codec) {
  Json form = Json::object();
  std::string_view id = codec.name;
  if (id.starts_with(kNumcodecs)) {
    form["id"] = id.substr(kNumcodecs.size());
  } else if (is_one_of(kOfBoth, id)) {
    form["id"] = codec.name;
  } else {
    const std::string only = std::string(kOnlyZarr3) + codec.name;
    // A plugin may register a codec of the same name.
    const bool is_registered =
        find_by_codec(only) == nullptr && find_by_codec(codec.name) != nullptr && !is_one_of(kOfNumcodecs, codec.name);
    form["id"] = is_registered ? codec.name : only;
  }
  for (const auto& [key, value] : codec.configuration.items())
    if (key != "id") form[key] = value;
  if (codec.name == "blosc" && form.contains("shuffle")) {
    const auto shuffle = std::ranges::find(
        kBloscShuffles, form["shuffle"].is_string() ? std::string_view(form["shuffle"].get_ref<const std::string&>())
                                                    : std::string_view());
    if (shuffle != kBloscShuffles.end()) form["shuffle"] = shuffle - kBloscShuffles.begin();
  }
  return form;
}

class ListParser {
 public:
  ListParser(const DataType& type, size_t rank) : item_size_(type.size), rank_(rank) {}

  Result<> take(const Json& json) {
    CODECFS_ASSIGN(const NamedCodec codec, parse_named(json));
    if (codec.name == "transpose") return take_transpose(codec);
    if (codec.name == "sharding_indexed") {
      CODECFS_TRY(take_serializer(codec.name));
      codecs_.sharding = codec.configuration;
      codecs_.stages_before = std::exchange(codecs_.stages, {});
      return {};
    }
    if (codec.name == "bytes") {
      CODECFS_TRY(take_serializer(codec.name));
      CODECFS_ASSIGN(codecs_.byte_order, parse_endian(codec.configuration));
      return {};
    }
    if (codec.name.starts_with("vlen-")) {
      CODECFS_TRY(take_serializer(codec.name));
      Json object_codec = {{"id", codec.name}};
      for (const auto& [key, value] : codec.configuration.items()) object_codec[key] = value;
      codecs_.object_codec = std::move(object_codec);
      return {};
    }
    if (is_one_of(kArrayToBytes, codec.name)) CODECFS_TRY(take_serializer(codec.name));
    CODECFS_ASSIGN(FilterStage stage, parse_zarr3_stage(json, item_size_));
    if (!has_serializer_ && !is_one_of(kElementwise, id_of(stage))) keeps_order_ = false;
    codecs_.stages.push_back(std::move(stage));
    return {};
  }

  Result<Zarr3Codecs> finish() {
    if (!has_serializer_) {
      for (const FilterStage& stage : codecs_.stages)
        if (!is_one_of(kArrayToArray, id_of(stage))) {
          refuse(fmt::format("codec {} is not known", print_json(stage.codec)));
          return std::move(codecs_);
        }
      return fail(EINVAL, "\"codecs\": none of them makes bytes of an array");
    }
    if (std::ranges::is_sorted(codecs_.order)) codecs_.order.clear();
    return std::move(codecs_);
  }

 private:
  Result<> take_serializer(const std::string& name) {
    if (has_serializer_) return fail(EINVAL, "\"codecs\": {} cannot follow a codec that makes bytes", name);
    has_serializer_ = true;
    return {};
  }

  Result<> take_transpose(const NamedCodec& codec) {
    if (has_serializer_) return fail(EINVAL, "\"codecs\": transpose cannot follow a codec that makes bytes");
    CODECFS_ASSIGN(const std::vector<size_t> order, parse_order(codec.configuration, rank_));
    codecs_.order = compose(codecs_.order, order);
    if (!keeps_order_ && !std::ranges::is_sorted(order))
      refuse(fmt::format("a transpose after {} cannot be undone here", print_json(codecs_.stages.back().codec)));
    return {};
  }

  void refuse(std::string reason) {
    if (!codecs_.unreadable) codecs_.unreadable = Error{EOPNOTSUPP, std::move(reason)};
  }

  uint64_t item_size_;
  size_t rank_;
  bool has_serializer_ = false;
  bool keeps_order_ = true;  // the stages so far do not depend on the order of elements
  Zarr3Codecs codecs_;
};

}  // namespace

Result<FilterStage> parse_zarr3_stage(const Json& codec, uint64_t item_size) {
  CODECFS_ASSIGN(const NamedCodec named, parse_named(codec));
  CODECFS_ASSIGN(auto stages, parse_zarr_codecs(numcodecs_form(named), {}, item_size));
  return std::move(stages.front());
}

Json print_zarr3_stage(const FilterStage& stage, uint64_t item_size) {
  const Json codecs = print_codecs(std::span(&stage, 1));
  Json configuration = codecs[0];
  std::string id = configuration.value("id", std::string());
  configuration.erase("id");
  if (id == "crc32c" && configuration.value("location", Json("end")) == "end") return {{"name", "crc32c"}};
  if (id == "blosc") {
    int shuffle = 1;
    if (configuration.contains("shuffle") && configuration["shuffle"].is_number_integer())
      shuffle = configuration["shuffle"].get<int>();
    if (shuffle < 0 || shuffle > 2) shuffle = item_size == 1 ? 2 : 1;
    configuration["shuffle"] = kBloscShuffles.at(static_cast<size_t>(shuffle));
    if (!configuration.contains("typesize")) configuration["typesize"] = std::max<uint64_t>(item_size, 1);
    if (!configuration.contains("blocksize")) configuration["blocksize"] = 0;
  }
  if (id == "zstd" && !configuration.contains("checksum")) configuration["checksum"] = false;
  if (id.starts_with(kOnlyZarr3)) {
    id.erase(0, kOnlyZarr3.size());
  } else if (is_one_of(kOfNumcodecs, id) || id == "crc32c") {
    id.insert(0, kNumcodecs);
  }
  Json named = {{"name", id}};
  named["configuration"] = std::move(configuration);
  return named;
}

Result<Zarr3Codecs> parse_zarr3_codecs(const Json& codecs, const DataType& type, size_t rank) {
  if (!codecs.is_array()) return fail(EINVAL, "\"codecs\" is not a list");
  if (codecs.size() > kMaxCodecs) return fail(EINVAL, "\"codecs\" has more than {} items", kMaxCodecs);
  ListParser parser(type, rank);
  for (const Json& codec : codecs) CODECFS_TRY(parser.take(codec));
  return parser.finish();
}

Result<Json> print_zarr3_codecs(std::span<const FilterStage> stages, const DataType& type, const Json& object_codec,
                                std::span<const size_t> order) {
  Json list = Json::array();
  if (!std::ranges::is_sorted(order))
    list.push_back(
        {{"name", "transpose"}, {"configuration", {{"order", std::vector<size_t>(order.begin(), order.end())}}}});
  size_t at = 0;
  for (; at < stages.size() && is_one_of(kArrayToArray, id_of(stages[at])); ++at)
    list.push_back(print_zarr3_stage(stages[at], type.size));
  if (object_codec.is_object()) {
    NamedCodec codec;
    for (const auto& [key, value] : object_codec.items())
      if (key == "id") {
        codec.name = value.is_string() ? value.get<std::string>() : "";
      } else {
        codec.configuration[key] = value;
      }
    Json named = {{"name", codec.name}};
    if (!codec.configuration.empty()) named["configuration"] = std::move(codec.configuration);
    list.push_back(std::move(named));
  } else {
    const auto byte_order = common_byte_order(type);
    if (!byte_order) return fail(EOPNOTSUPP, "Zarr v3 has no codec for members of different byte orders");
    Json named = {{"name", "bytes"}};
    if (*byte_order != ByteOrder::none)
      named["configuration"] = {{"endian", *byte_order == ByteOrder::big ? "big" : "little"}};
    list.push_back(std::move(named));
  }
  for (; at < stages.size(); ++at) {
    const std::string_view id = id_of(stages[at]);
    if (is_one_of(kArrayToArray, id))
      return fail(EOPNOTSUPP, "codec {} follows one that makes bytes, which Zarr v3 cannot represent", id);
    if (id.starts_with("hdf5:") || id.empty())
      return fail(EOPNOTSUPP, "Zarr v3 has no codec for filter {}", stages[at].id);
    list.push_back(print_zarr3_stage(stages[at], type.size));
  }
  return list;
}

}  // namespace codecfs::filters
