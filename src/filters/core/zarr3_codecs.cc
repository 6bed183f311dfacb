#include "filters/core/zarr3_codecs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "filters/core/codec_json.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"
#include "model/zarr3_type.h"

namespace codecfs::filters {
namespace {

constexpr std::string_view kNumcodecsPrefix = "numcodecs.";
constexpr std::string_view kOnlyZarr3 = "zarr3:";
constexpr std::string_view kSharding = "sharding_indexed";
constexpr std::string_view kBase64 = "base64";
constexpr size_t kMaxCodecs = 32;

constexpr std::array<std::string_view, 3> kBloscShuffles = {"noshuffle", "shuffle", "bitshuffle"};

/// Ids of codecs that map arrays to arrays.
constexpr std::string_view kArrayToArray[] = {
    "delta",    "fixedscaleoffset", "quantize",           "bitround",     "astype",
    "packbits", "zarr3:cast_value", "zarr3:scale_offset", "zarr3:reshape"};
/// The codecs of kArrayToArray that treat each element alone, so that it does not matter in which order the elements
/// are.
constexpr std::string_view kElementwise[] = {"fixedscaleoffset", "quantize",         "bitround",
                                             "astype",           "zarr3:cast_value", "zarr3:scale_offset"};
/// Codecs that Zarr v3 names as numcodecs does.
constexpr std::string_view kOfBoth[] = {"gzip", "zstd", "blosc", "crc32c", "bitround"};
/// Codecs of numcodecs that zarr-python has as "numcodecs.NAME".
constexpr std::string_view kOfNumcodecs[] = {"zlib",       "shuffle",
                                             "fletcher32", "jenkins_lookup3",
                                             "delta",      "fixedscaleoffset",
                                             "quantize",   "astype",
                                             "bitround",   "packbits",
                                             "lz4",        "bz2",
                                             "lzma",       "crc32",
                                             "adler32",    "zfpy",
                                             "pcodec"};
/// Ids of codecs that map bytes to bytes. Those of plugins are not known.
constexpr std::string_view kBytesToBytes[] = {"gzip",       "zstd", "blosc", "crc32c", "zlib",  "shuffle",
                                              "fletcher32", "lz4",  "bz2",   "lzma",   "crc32", "adler32"};
/// Ids of codecs that map an array to bytes, and so stand for the codec `bytes`.
constexpr std::string_view kSerializers[] = {kPackbits, "zarr3:zfp", "zfpy", "pcodec"};
/// Names of codecs that map an array to bytes, but for sharding_indexed.
constexpr std::string_view kArrayToBytes[] = {"bytes", "vlen-utf8",      "vlen-bytes",       "vlen-array", "packbits",
                                              "zfp",   "numcodecs.zfpy", "numcodecs.pcodec", "pcodec",     "zfpy"};

template <size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
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
  if (id.starts_with(kNumcodecsPrefix)) {
    form["id"] = id.substr(kNumcodecsPrefix.size());
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
  ListParser(const DataType& type, size_t rank) : type_(type), rank_(rank) {}

  Result<> take(const Json& json) {
    CODECFS_ASSIGN(const NamedCodec codec, parse_named(json));
    if (codec.name == "transpose") return take_transpose(codec);
    if (codec.name == kSharding) {
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
    CODECFS_ASSIGN(FilterStage stage, parse_zarr3_stage(json, type_.size));
    if (!has_serializer_ && is_one_of(kBytesToBytes, codec_id(stage)))
      refuse(fmt::format("codec {} cannot precede one that makes bytes", codec.name));
    if (!has_serializer_ && !is_one_of(kElementwise, codec_id(stage))) keeps_order_ = false;
    if (codec_id(stage) == kReshape)
      if (const Json shape = codec.configuration.value("shape", Json()); shape.is_array()) rank_ = shape.size();
    codecs_.stages.push_back(std::move(stage));
    return {};
  }

  Result<Zarr3Codecs> finish() {
    if (!has_serializer_) {
      for (const FilterStage& stage : codecs_.stages)
        if (!is_one_of(kArrayToArray, codec_id(stage))) {
          refuse(fmt::format("codec {} is not known", print_json(stage.codec)));
          return std::move(codecs_);
        }
      return fail(EINVAL, "\"codecs\": none of them makes bytes of an array");
    }
    if (std::ranges::is_sorted(codecs_.order)) codecs_.order.clear();
    settle_byte_order();
    return std::move(codecs_);
  }

 private:
  /// The byte order that `bytes` states is that of the elements behind the array codecs. Those of numcodecs decode to
  /// the byte order that they name, also where it is another one; in front of a codec that names none it is that
  /// behind it.
  void settle_byte_order() {
    const ByteOrder stored = codecs_.byte_order.value_or(ByteOrder::little);
    ByteOrder in_front = stored;
    std::vector<ByteOrder> orders;  // behind each stage, the last one first
    for (auto stage = codecs_.stages.rbegin(); stage != codecs_.stages.rend(); ++stage) {
      orders.push_back(in_front);
      in_front = decoded_order(*stage).value_or(in_front);
    }
    if (in_front != stored) codecs_.byte_order = in_front;
    ElementType type{with_byte_order(type_, in_front), {}};
    for (FilterStage& stage : codecs_.stages) {
      const ByteOrder order = orders.back();
      orders.pop_back();
      ElementType next = encoded_type(stage, type);
      if (!next.name.empty() && next.type.size > 1 && order == ByteOrder::big)
        return refuse(fmt::format("big-endian {} is not supported", next.name));
      if (next.type.order != ByteOrder::none && next.type.order != order) {
        if (codec_id(stage) != kCastValue)
          return refuse(fmt::format("codec {} makes elements of another byte order than what follows it stores",
                                    print_json(stage.codec)));
        Json codec = stage.codec;
        codec["endian"] = order == ByteOrder::big ? "big" : "little";
        stage.codec = std::move(codec);
        next.type.order = order;
      }
      type = std::move(next);
    }
  }

  Result<> take_serializer(const std::string& name) {
    if (has_serializer_) return fail(EINVAL, "\"codecs\": {} cannot follow a codec that makes bytes", name);
    has_serializer_ = true;
    return {};
  }

  Result<> take_transpose(const NamedCodec& codec) {
    if (has_serializer_) return fail(EINVAL, "\"codecs\": transpose cannot follow a codec that makes bytes");
    CODECFS_ASSIGN(const std::vector<size_t> order, parse_order(codec.configuration, rank_));
    if (keeps_order_)
      codecs_.order = compose(codecs_.order, order);
    else if (!std::ranges::is_sorted(order))
      refuse(fmt::format("a transpose after {} cannot be undone here", print_json(codecs_.stages.back().codec)));
    return {};
  }

  void refuse(std::string reason) {
    if (!codecs_.unreadable) codecs_.unreadable = Error{EOPNOTSUPP, std::move(reason)};
  }

  DataType type_;
  size_t rank_;  // of the array behind the codecs so far
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
  // numcodecs takes -1 for the default level, Zarr v3 does not.
  if (id == "gzip" && configuration.value("level", Json()) == -1) configuration["level"] = 6;
  if (id.starts_with(kOnlyZarr3)) {
    if (id == kCastValue) configuration.erase("endian");  // `bytes` says it
    id.erase(0, kOnlyZarr3.size());
    if (configuration.empty()) return {{"name", id}};
  } else if (is_one_of(kOfNumcodecs, id) || id == "crc32c") {
    id.insert(0, kNumcodecsPrefix);
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

Json with_serializer(Json codecs, const Json& serializer) {
  const auto name_of = [](const Json& codec) {
    const auto named = parse_named(codec);
    return named ? named->name : std::string();
  };
  const auto is_array_codec = [&](const Json& codec) {
    const auto stage = parse_zarr3_stage(codec, 0);
    return name_of(codec) == "transpose" || (stage && is_one_of(kArrayToArray, codec_id(*stage)));
  };
  for (const Json& codec : codecs) {
    const std::string name = name_of(codec);
    if (name == kSharding || name.starts_with("vlen-") || is_one_of(kArrayToBytes, name) ||
        serializer.value("name", Json()) == Json(name))
      return codecs;
  }
  const auto place = std::ranges::find_if_not(codecs, is_array_codec);
  codecs.insert(place, serializer);
  return codecs;
}

Result<Json> print_zarr3_serializer(const DataType& type, const Json& object_codec, std::string_view type_name) {
  if (object_codec.is_object()) {
    Json configuration = object_codec;
    configuration.erase("id");
    Json named = {{"name", object_codec.value("id", Json("")).is_string() ? object_codec.value("id", "") : ""}};
    if (!configuration.empty()) named["configuration"] = std::move(configuration);
    return named;
  }
  auto byte_order = common_byte_order(type);
  if (!byte_order) return fail(EOPNOTSUPP, "Zarr v3 has no codec for members of different byte orders");
  if (!type_name.empty() && type.size > 1) byte_order = ByteOrder::little;  // raw here, and so without a byte order
  Json named = {{"name", "bytes"}};
  if (*byte_order != ByteOrder::none)
    named["configuration"] = {{"endian", *byte_order == ByteOrder::big ? "big" : "little"}};
  return named;
}

Result<Json> print_zarr3_codecs(std::span<const FilterStage> stages, const DataType& type, const Json& object_codec,
                                std::span<const size_t> order, std::string_view type_name) {
  Json list = Json::array();
  if (!std::ranges::is_sorted(order))
    list.push_back(
        {{"name", "transpose"}, {"configuration", {{"order", std::vector<size_t>(order.begin(), order.end())}}}});
  size_t at = 0;
  ElementType behind{type, std::string(type_name)};
  for (; at < stages.size() && is_one_of(kArrayToArray, codec_id(stages[at])); ++at) {
    // In Zarr v2 its elements would then be taken for those of the other byte order.
    const ByteOrder own = common_byte_order(behind.type).value_or(ByteOrder::none);
    if (own != ByteOrder::none && decoded_order(stages[at]).value_or(own) != own)
      return fail(EOPNOTSUPP, "codec {} decodes to another byte order than that of the elements", codec_id(stages[at]));
    // Readers of Zarr v2 take the decoded bytes for elements of the array's type, those of v3 convert the numbers.
    if (behind.name.empty() && !decodes_to(stages[at], behind.type))
      return fail(EOPNOTSUPP, "codec {} decodes to another type than that of the elements", codec_id(stages[at]));
    list.push_back(print_zarr3_stage(stages[at], behind.type.size));
    behind = encoded_type(stages[at], std::move(behind));
  }
  const DataType& encoded = behind.type;
  if (at < stages.size() && is_one_of(kSerializers, codec_id(stages[at]))) {
    if (common_byte_order(encoded) == ByteOrder::big)
      return fail(EOPNOTSUPP, "codec {} stores elements in little-endian order", codec_id(stages[at]));
    list.push_back(print_zarr3_stage(stages[at++], encoded.size));
  } else {
    // Elements of one byte have no order: that of the array is kept. bfloat16 is always little-endian
    // here.
    const bool is_raw = !behind.name.empty() && encoded.size > 1;
    if (is_raw && common_byte_order(type) == ByteOrder::big)
      return fail(EOPNOTSUPP, "big-endian {} is not supported", behind.name);
    const bool keeps_type = encoded == type || encoded.order == ByteOrder::none;
    CODECFS_ASSIGN(Json serializer, keeps_type && !is_raw ? print_zarr3_serializer(type, object_codec, type_name)
                                                          : print_zarr3_serializer(encoded, object_codec, behind.name));
    list.push_back(std::move(serializer));
  }
  for (; at < stages.size(); ++at) {
    const std::string_view id = codec_id(stages[at]);
    if (is_one_of(kArrayToArray, id) || is_one_of(kSerializers, id))
      return fail(EOPNOTSUPP, "codec {} follows one that makes bytes, which Zarr v3 cannot represent", id);
    if (id == kBase64) return fail(EOPNOTSUPP, "codec {} is of numcodecs for Zarr v2 alone", id);
    if (id.starts_with("hdf5:") || id.empty())
      return fail(EOPNOTSUPP, "Zarr v3 has no codec for filter {}", stages[at].id);
    list.push_back(print_zarr3_stage(stages[at], encoded.size));
  }
  return list;
}

}  // namespace codecfs::filters
