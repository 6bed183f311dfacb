#include "filters/plugins/plugin_trial.h"

#include <fmt/ranges.h>
#include <hdf5.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "filters/core/filter_spec.h"
#include "filters/plugins/codec_workers.h"
#include "filters/plugins/plugin_library.h"
#include "filters/plugins/plugin_trust.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

constexpr uint64_t kSide = 64;  // elements of a chunk per dimension; a dataset has 2 x 2 chunks
constexpr uint64_t kElements = kSide * kSide;
constexpr uint64_t kMaxTrialBytes = uint64_t{64} << 20;  // that a chunk may take when it is encoded
constexpr int kDamages = 16;

enum class Kind { integer, floating, text };

/// A type of which chunks are tried, as HDF5 and as Zarr describe it.
struct TrialType {
  const char* name;
  Kind kind;
  DataType type;
  hid_t hdf5;  // of libhdf5, or made by this file and kept
};

hid_t type_of_text() {
  static const hid_t type = [] {
    const hid_t made = H5Tcopy(H5T_C_S1);
    H5Tset_size(made, 8);
    return made;
  }();
  return type;
}

std::vector<TrialType> trial_types() {
  const auto type = [](TypeKind kind, ByteOrder order, uint64_t size) {
    return DataType{.kind = kind, .order = order, .size = size, .unit = {}, .members = {}};
  };
  using enum TypeKind;
  using enum ByteOrder;
  return {{"int8", Kind::integer, type(signed_int, none, 1), H5T_STD_I8LE},
          {"uint8", Kind::integer, type(unsigned_int, none, 1), H5T_STD_U8LE},
          {"int16", Kind::integer, type(signed_int, little, 2), H5T_STD_I16LE},
          {"uint16", Kind::integer, type(unsigned_int, little, 2), H5T_STD_U16LE},
          {"int32", Kind::integer, type(signed_int, little, 4), H5T_STD_I32LE},
          {"uint32", Kind::integer, type(unsigned_int, little, 4), H5T_STD_U32LE},
          {"int64", Kind::integer, type(signed_int, little, 8), H5T_STD_I64LE},
          {"uint64", Kind::integer, type(unsigned_int, little, 8), H5T_STD_U64LE},
          {"float32", Kind::floating, type(floating, little, 4), H5T_IEEE_F32LE},
          {"float64", Kind::floating, type(floating, little, 8), H5T_IEEE_F64LE},
          {"big-endian int32", Kind::integer, type(signed_int, big, 4), H5T_STD_I32BE},
          {"big-endian float64", Kind::floating, type(floating, big, 8), H5T_IEEE_F64BE},
          {"text of 8 bytes", Kind::text, type(string, none, 8), type_of_text()}};
}

struct Sample {
  const char* name;
  double (*value)(uint64_t element);  // null: random bits
};

constexpr Sample kSamples[] = {
    {"zeros", [](uint64_t) { return 0.0; }},
    {"counting", [](uint64_t element) { return static_cast<double>(element); }},
    {"smooth", [](uint64_t element) { return 100 * std::sin(static_cast<double>(element) / 50); }},
    {"random", nullptr}};

/// The bytes of a number in the byte order of a type, which is little where nothing is said.
void put(std::byte* to, uint64_t bits, const DataType& type) {
  for (uint64_t i = 0; i < type.size; ++i)
    to[type.order == ByteOrder::big ? type.size - 1 - i : i] = static_cast<std::byte>(bits >> (8 * i));
}

uint64_t bits_at(const std::byte* from, const DataType& type) {
  uint64_t bits = 0;
  for (uint64_t i = type.size; i-- > 0;)
    bits = bits << 8 | std::to_integer<uint64_t>(from[type.order == ByteOrder::big ? type.size - 1 - i : i]);
  return bits;
}

double number_at(const std::byte* from, const TrialType& trial) {
  const uint64_t bits = bits_at(from, trial.type);
  if (trial.kind == Kind::floating)
    return trial.type.size == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
  if (trial.type.kind == TypeKind::unsigned_int) return static_cast<double>(bits);
  const unsigned unused = 64 - 8 * static_cast<unsigned>(trial.type.size);
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

std::vector<std::byte> sample_of(const TrialType& trial, const Sample& sample) {
  std::vector<std::byte> bytes(kElements * trial.type.size);
  std::mt19937_64 random(1);  // the same in each run
  for (uint64_t i = 0; i < kElements; ++i) {
    std::byte* const at = bytes.data() + i * trial.type.size;
    const double value = sample.value == nullptr ? 0 : sample.value(i);
    if (trial.kind == Kind::text) {
      const std::string text = sample.value == nullptr ? fmt::format("{:08x}", random() & 0xffffffff)
                               : value == 0            ? std::string()
                                                       : fmt::format("{:.0f}", value);
      std::memcpy(at, text.data(), std::min<size_t>(text.size(), trial.type.size));
    } else if (trial.kind == Kind::integer) {
      put(at, sample.value == nullptr ? random() : static_cast<uint64_t>(std::llround(value)), trial.type);
    } else {
      const double number = sample.value == nullptr ? std::ldexp(static_cast<double>(random() >> 11), -53) : value;
      put(at,
          trial.type.size == 4 ? std::bit_cast<uint32_t>(static_cast<float>(number)) : std::bit_cast<uint64_t>(number),
          trial.type);
    }
  }
  return bytes;
}

/// How a decoded chunk differs from what was encoded; empty if it does not.
std::string difference(const TrialType& trial, Bytes before, Bytes after) {
  if (before.size() != after.size()) return fmt::format("decoded to {} bytes, not {}", after.size(), before.size());
  if (std::ranges::equal(before, after)) return {};
  if (trial.kind == Kind::text) return "other text";
  double largest = 0;
  for (uint64_t i = 0; i < before.size(); i += trial.type.size) {
    const double by = std::abs(number_at(before.data() + i, trial) - number_at(after.data() + i, trial));
    if (!(by <= largest)) largest = by;
    if (std::isnan(largest)) break;
  }
  return fmt::format("differs by at most {:.3g}", largest);
}

std::string encoded_type(hid_t type) {
  size_t size = 0;
  H5Tencode(type, nullptr, &size);
  std::string bytes(size, '\0');
  H5Tencode(type, bytes.data(), &size);
  bytes.resize(size);
  return bytes;
}

std::string list_of(std::span<const uint32_t> parameters) {
  return parameters.empty() ? "none" : fmt::format("{}", fmt::join(parameters, ","));
}

class Trial {
 public:
  Trial(std::shared_ptr<CodecWorkers> workers, std::vector<uint32_t> parameters)
      : workers_(std::move(workers)), plugin_(workers_->description()), parameters_(std::move(parameters)) {}

  PluginTrial run(const std::string& shown, const std::vector<std::string>& obstacles) {
    line("{}", shown);
    for (const std::string& obstacle : obstacles) wrong("not used by a mount: {}", obstacle);
    for (const std::string& problem : plugin_.problems) wrong("{}", problem);
    if (!plugin_.hdf5 && plugin_.codecs.empty()) wrong("it has no filter and no codec");
    describe();
    if (plugin_.hdf5) try_types();
    try_codecs();
    if (!encoded_.empty()) try_damage();
    line("{}", is_right_ ? "No faults were found." : "Faults were found: the lines with FAULT.");
    return {std::move(text_), is_right_};
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  template <class... Args>
  void wrong(fmt::format_string<Args...> format, Args&&... args) {
    is_right_ = false;
    text_ += "FAULT " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void describe() {
    if (const auto& filter = plugin_.hdf5) {
      std::string abilities = filter->encodes && filter->decodes ? "encodes and decodes"
                              : filter->encodes                  ? "encodes only"
                                                                 : "decodes only";
      if (filter->has_can_apply) abilities += ", can_apply";
      if (filter->has_set_local) abilities += ", set_local";
      line("HDF5 filter {} \"{}\": {}", filter->id, filter->name, abilities);
      line("parameters: {}", list_of(parameters_));
    }
    for (const PluginDescription::Codec& codec : plugin_.codecs)
      line("codec \"{}\" of filter {}{}{}", codec.id, codec.hdf5_id,
           codec.has_modify_parameters ? ", NCZ_modify_parameters" : "",
           codec.is_default ? ", in NCZ_codec_info_defaults" : "");
    if (workers_->protections() != kWholeSandbox)
      line("the sandbox lacks {}", names_of(kWholeSandbox & ~workers_->protections()));
  }

  DatasetToPrepare dataset_of(const TrialType& trial, bool only_check) const {
    return {.only_check = only_check,
            .flags = 0,
            .parameters = parameters_,
            .type = encoded_type(trial.hdf5),
            .shape = {2 * kSide, 2 * kSide},
            .chunks = {kSide, kSide}};
  }

  void try_types() {
    for (const TrialType& trial : trial_types()) {
      if (plugin_.hdf5->has_can_apply)
        if (const auto applies = workers_->prepare_dataset(dataset_of(trial, true)); !applies) {
          if (applies.error().code == ENOTSUP || applies.error().code == EINVAL)
            line("{:<18} not applied: {}", trial.name, applies.error().reason);
          else
            wrong("{}: can_apply: {}", trial.name, applies.error().reason);
          continue;
        }
      std::vector<uint32_t> parameters = parameters_;
      if (plugin_.hdf5->has_set_local) {
        auto complete = workers_->prepare_dataset(dataset_of(trial, false));
        if (!complete && complete.error().code == EINVAL) {
          line("{:<18} not applied: set_local: {}", trial.name, complete.error().reason);
          continue;
        }
        if (!complete) {
          wrong("{}: set_local: {}", trial.name, complete.error().reason);
          continue;
        }
        parameters = *std::move(complete);
      }
      try_samples(trial, parameters);
    }
  }

  void try_samples(const TrialType& trial, const std::vector<uint32_t>& parameters) {
    std::string sizes;
    std::vector<std::string> notes;
    bool is_decoded = false;
    for (const Sample& sample : kSamples) {
      const std::vector<std::byte> bytes = sample_of(trial, sample);
      if (!plugin_.hdf5->encodes) continue;
      const auto encoded = workers_->filter(0, parameters, bytes, kMaxTrialBytes);
      if (!encoded && encoded.error().code == EINVAL) {
        sizes += fmt::format("  {} declined", sample.name);
        continue;
      }
      if (!encoded) {
        wrong("{}, {}: encoding: {}", trial.name, sample.name, encoded.error().reason);
        continue;
      }
      sizes += fmt::format("  {} {}", sample.name, encoded->size());
      if (!plugin_.hdf5->decodes) continue;
      const auto decoded = workers_->filter(H5Z_FLAG_REVERSE, parameters, encoded->bytes(), kMaxTrialBytes);
      if (!decoded) {
        wrong("{}, {}: decoding: {}", trial.name, sample.name, decoded.error().reason);
        continue;
      }
      is_decoded = true;
      const std::string differs = difference(trial, bytes, decoded->bytes());
      if (decoded->size() != bytes.size())
        wrong("{}, {}: {}", trial.name, sample.name, differs);
      else if (!differs.empty())
        notes.push_back(fmt::format("{} {}", sample.name, differs));
      if (encoded_.empty() || std::string_view(sample.name) == "smooth") {  // at last, of the widest type
        encoded_.assign(encoded->bytes().begin(), encoded->bytes().end());
        encoded_with_ = parameters;
      }
    }
    std::string whole = fmt::format("{:<18} {} bytes:{}", trial.name, kElements * trial.type.size, sizes);
    if (is_decoded) whole += notes.empty() ? "; exact" : fmt::format("; {}", fmt::join(notes, ", "));
    if (parameters != parameters_) whole += "; parameters " + list_of(parameters);
    line("{}", whole);
  }

  /// Tries both conversions of each codec, and NCZ_modify_parameters for each type.
  void try_codecs() {
    for (size_t i = 0; i < plugin_.codecs.size(); ++i) {
      const PluginDescription::Codec& codec = plugin_.codecs[i];
      if (plugin_.hdf5 && codec.hdf5_id != plugin_.hdf5->id) continue;
      if (codec.is_default) continue;  // for filters of other libraries
      std::vector<uint32_t> visible = parameters_;
      if (codec.has_modify_parameters) {
        for (const TrialType& trial : trial_types()) {
          const ChunkShape chunk{.bytes = kElements * trial.type.size,
                                 .type = trial.type,
                                 .shape = {2 * kSide, 2 * kSide},
                                 .chunks = {kSide, kSide},
                                 .type_name = {}};
          const auto modified = workers_->modified_parameters(i, parameters_, chunk);
          if (!modified && modified.error().code != EINVAL)
            wrong("codec \"{}\", {}: {}", codec.id, trial.name, modified.error().reason);
          else if (!modified)
            line("codec \"{}\", {}: not applied: {}", codec.id, trial.name, modified.error().reason);
          else if (modified->visible != parameters_ || modified->working != parameters_)
            line("codec \"{}\", {}: stores {}, works with {}", codec.id, trial.name, list_of(modified->visible),
                 list_of(modified->working));
          if (modified) visible = modified->visible;
        }
      }
      try_conversions(i, codec.id, visible);
    }
  }

  void try_conversions(size_t codec, const std::string& id, const std::vector<uint32_t>& parameters) {
    const auto text = workers_->codec_of(codec, parameters);
    if (!text) return wrong("codec \"{}\": {}", id, text.error().reason);
    const Result<Json> json = parse_json(*text);
    if (!json || !json->is_object()) return wrong("codec \"{}\": {} is not a JSON object", id, *text);
    if (const Json named = json->value("id", Json()); !named.is_string() || named.get<std::string>() != id)
      return wrong("codec \"{}\": {} has another id", id, *text);
    line("codec \"{}\": {}", id, *text);
    const auto back = workers_->parameters_of(codec, *text);
    if (!back) return wrong("codec \"{}\": its own JSON: {}", id, back.error().reason);
    if (*back != parameters)
      line("codec \"{}\": the JSON gives the parameters {}, made of {}", id, list_of(*back), list_of(parameters));
  }

  /// Whether a damaged chunk ends the process that decodes it, as it would end each program that reads the file.
  void try_damage() {
    if (!plugin_.hdf5->decodes) return;
    std::mt19937 random(1);
    int errors = 0;
    for (int i = 0; i < kDamages; ++i) {
      std::vector<std::byte> damaged = encoded_;
      if (i % 4 == 0)
        damaged.resize(std::max<size_t>(damaged.size() * static_cast<size_t>(i) / kDamages, 1));
      else
        for (int flips = 0; flips < i; ++flips)
          damaged[random() % damaged.size()] ^= static_cast<std::byte>(random() | 1);
      const uint64_t ended = workers_->ended();
      const auto decoded = workers_->filter(H5Z_FLAG_REVERSE, encoded_with_, damaged, kMaxTrialBytes);
      if (workers_->ended() != ended)
        return wrong("damaged chunks: {}", decoded ? "a call ended the process" : decoded.error().reason);
      if (!decoded) ++errors;
    }
    line("damaged chunks: {} of {} are errors, the others are decoded", errors, kDamages);
  }

  const std::shared_ptr<CodecWorkers> workers_;
  const PluginDescription& plugin_;
  const std::vector<uint32_t> parameters_;
  std::string text_;
  bool is_right_ = true;
  std::vector<std::byte> encoded_;  // a chunk to be damaged
  std::vector<uint32_t> encoded_with_;
};

/// What keeps a mount from finding the library when its folder is searched.
std::vector<std::string> obstacles_of(const std::string& path) {
  std::vector<std::string> obstacles;
  const std::string name = std::filesystem::path(path).filename();
  if (!name.starts_with("lib") || !name.contains(".so")) obstacles.emplace_back("its name is not lib*.so");
  if (const auto trusted = trusted_path(path); !trusted) obstacles.push_back(trusted.error().reason);
  return obstacles;
}

}  // namespace

Result<PluginTrial> try_plugin(const std::string& path, const std::string& parameters) {
  std::error_code error;
  const std::string whole = std::filesystem::canonical(path, error);
  if (error) return fail_errno(error.value(), "{}", path);
  if (!names_a_plugin_interface(whole))
    return fail(ENOEXEC, "{}: no library with H5PLget_plugin_info, NCZ_get_codec_info or NCZ_codec_info_defaults",
                path);
  auto workers = CodecWorkers::start(whole, path);
  if (!workers) return fail(workers.error().code, "{}: {}", path, workers.error().reason);
  const PluginDescription& plugin = (*workers)->description();
  std::vector<uint32_t> numbers;
  if (parameters.starts_with("{")) {
    if (plugin.codecs.empty()) return fail(EINVAL, "{} has no codec, so its parameters cannot be JSON", path);
    const auto is_of_filter = [&](const PluginDescription::Codec& codec) {
      return !codec.is_default && (!plugin.hdf5 || codec.hdf5_id == plugin.hdf5->id);
    };
    const auto codec = std::ranges::find_if(plugin.codecs, is_of_filter);
    const size_t index = codec == plugin.codecs.end() ? 0 : static_cast<size_t>(codec - plugin.codecs.begin());
    CODECFS_ASSIGN(numbers, (*workers)->parameters_of(index, parameters));
  } else if (!parameters.empty()) {
    CODECFS_ASSIGN(const auto stages, parse_filter_spec("1," + parameters));
    if (stages.size() != 1)
      return fail(EINVAL, "{}: these are the parameters of {} filters", parameters, stages.size());
    numbers = stages[0].parameters;
  }
  return Trial(*std::move(workers), std::move(numbers)).run(path, obstacles_of(path));
}

}  // namespace codecfs::filters
