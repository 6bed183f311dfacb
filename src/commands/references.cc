#include "commands/references.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "backends/api/forwarding_source.h"
#include "base/utf8.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "fs/nodes/metadata_files.h"
#include "model/base64.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kListed = 8192;                      // chunks
constexpr uint64_t kMaxInlined = uint64_t{16} << 20;  // bytes of a variable
constexpr size_t kPiece = size_t{1} << 20;            // bytes of text that are written at once
constexpr size_t kMaxText = size_t{256} << 20;        // bytes

/// Readers return uninitialised memory for absent chunks if the fill value is null.
Result<VariablePtr> with_fill_value(const VariablePtr& variable) {
  if (!variable->fill_value.is_null() || variable->type.kind == TypeKind::object) return variable;
  auto filled = std::make_shared<Variable>(*variable);
  std::vector<std::byte> fill = variable->fill;
  fill.resize(variable->type.size);  // empty: zeros
  filled->fill_value = fill_json(variable->type, fill);
  return VariablePtr(std::move(filled));
}

/// A contiguous variable is one chunk.
Result<Variable> as_one_chunk(const Variable& variable) {
  Variable whole = variable;
  std::vector<uint64_t> chunks = variable.grid.shape();
  for (uint64_t& extent : chunks) extent = std::max<uint64_t>(extent, 1);
  CODECFS_ASSIGN(whole.grid, ChunkGrid::make(variable.grid.shape(), std::move(chunks)));
  return whole;
}

/// The compressor is the last of the filters, as kerchunk has it for HDF5: VirtualiZarr 2.5 finds it nowhere else.
Json zarray_for_readers(const Variable& variable, const std::vector<FilterStage>& chain) {
  Json zarray = fs::zarray_json(variable, chain);
  Json& compressor = zarray["compressor"];
  if (compressor.is_null()) return zarray;
  Json& filters = zarray["filters"];
  if (filters.is_null()) filters = Json::array();
  filters.push_back(std::exchange(compressor, nullptr));
  return zarray;
}

/// Without a _FillValue that repeats the fill_value, as kerchunk has it: VirtualiZarr 2.8 takes one that is a number
/// for the base64 text of Zarr v3.
Json zattrs_for_readers(const Variable& variable) {
  Json zattrs = fs::zattrs_json(variable);
  for (const Attribute& attribute : variable.attributes)
    if (fs::repeats_fill(variable, attribute)) zattrs.erase(attribute.name);
  return zattrs;
}

class Collector {
 public:
  Collector(TreeFiles& tree, ReferenceSink& sink)
      : tree_(tree), source_(tree.filesystem().context().dataset.source()), sink_(sink) {}

  Result<References> run() {
    CODECFS_TRY(walk(
        source_,
        [&](const std::string& path, const Entry& entry) -> Result<> {
          if (interrupted) return fail(ECANCELED, "interrupted");
          const std::string directory = path.empty() ? "" : path + "/";
          if (entry.kind == EntryKind::group) return add_group(directory, entry);
          if (entry.kind == EntryKind::variable) return add_variable(path, directory, entry);
          return {};
        },
        [](const std::string& path, const Error& error) -> Result<> {
          return fail(error.code, "/{}: {}", path, error.reason);
        }));
    CODECFS_TRY(sink_.finish());
    return found_;
  }

 private:
  Result<> add_group(const std::string& directory, const Entry& entry) {
    CODECFS_TRY(sink_.add_document(directory + ".zgroup", fs::zgroup_json()));
    CODECFS_ASSIGN(const std::vector<Attribute> attributes, source_.group_attributes(entry.object));
    if (attributes.empty()) return {};
    return sink_.add_document(directory + ".zattrs", fs::zattrs_json(attributes));
  }

  Result<> add_variable(const std::string& path, const std::string& directory, const Entry& entry) {
    CODECFS_ASSIGN(const VariablePtr variable, source_.variable(entry.object));
    CODECFS_ASSIGN(const VariablePtr described, with_fill_value(variable));
    if (described->unreadable) return fail(described->unreadable->code, "/{}: {}", path, described->unreadable->reason);
    CODECFS_ASSIGN(const TreeFiles::Ino ino, tree_.find_path(path));
    CODECFS_ASSIGN(const fs::Place place, tree_.filesystem().context().tree.nodes.at(ino));
    CODECFS_ASSIGN(const fs::EncodedFormPtr form, tree_.filesystem().forms().of(*place.node));
    CODECFS_ASSIGN(const bool is_contiguous, is_one_place(entry, *described, *form));
    CODECFS_TRY(sink_.add_document(directory + ".zattrs", zattrs_for_readers(*described)));
    if (is_contiguous) return add_contiguous(path, directory, entry, *described, form->chain);
    CODECFS_TRY(sink_.add_document(directory + ".zarray", zarray_for_readers(*described, form->chain)));
    const bool has_places = form->as_stored && described->storage == Storage::chunked;
    uint64_t inlined = 0;
    // The next places are looked up while those before are written.
    const auto look_up = [&](uint64_t from) {
      return std::async([this, &entry, has_places, from] { return places_from(entry, from, has_places); });
    };
    auto coming = look_up(0);
    for (bool is_first = true;; is_first = false) {
      CODECFS_ASSIGN(const std::vector<ChunkPlace> places, coming.get());
      if (places.empty()) return {};
      coming = look_up(places.back().number + 1);
      if (is_first) CODECFS_TRY(sink_.begin_chunks(path, described->grid));
      if (interrupted) return fail(ECANCELED, "interrupted");
      for (const ChunkPlace& chunk : places) {
        if (!chunk.size) {
          CODECFS_TRY(add_inlined(path, ino, described->grid, chunk.number, inlined));
          continue;
        }
        ++found_.chunks;
        CODECFS_TRY(sink_.add_place(chunk.number, chunk.offset, *chunk.size));
      }
    }
  }

  /// Where a chunk is in the file.
  struct ChunkPlace {
    uint64_t number;
    uint64_t offset = 0;
    std::optional<uint64_t> size;  // none: its bytes are not there as readers need them
  };

  /// The next chunks from this number on; none if there are no more.
  Result<std::vector<ChunkPlace>> places_from(const Entry& entry, uint64_t from, bool has_places) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, source_.stored_chunks(entry.object, from, kListed));
    std::vector<ChunkPlace> places;
    places.reserve(numbers.size());
    for (const uint64_t number : numbers) {
      places.push_back({.number = number, .offset = 0, .size = {}});
      if (has_places) CODECFS_TRY(find_place(entry, places.back()));
    }
    return places;
  }

  /// Whether a variable is contiguous, and all of it in the file or not stored at all.
  Result<bool> is_one_place(const Entry& entry, const Variable& described, const fs::EncodedForm& form) {
    if (described.storage != Storage::contiguous || !described.filters.empty() ||
        described.type.kind == TypeKind::object || !form.as_stored)
      return false;
    if (described.grid.count() == 0) return true;
    CODECFS_ASSIGN(const ChunkInfo first, source_.locate(entry.object, 0));
    if (!first.stored || !first.offset) return true;
    // Bytes behind the end of a string must not be shown.
    for (uint64_t piece = 0; piece < described.grid.count() && !described.ended_strings.empty(); ++piece) {
      CODECFS_ASSIGN(const auto stored, source_.stored_bytes(entry.object, piece));
      if (!stored) return false;
    }
    CODECFS_ASSIGN(const Variable whole, as_one_chunk(described));
    return is_in_file(*first.offset, whole.grid.elements_per_chunk() * whole.type.size);
  }

  /// False for what is in another file of a family of HDF5 files.
  [[nodiscard]] bool is_in_file(uint64_t offset, uint64_t size) const {
    const auto end = static_cast<uint64_t>(source_.status().st_size);
    return offset <= end && size <= end - offset;
  }

  Result<> find_place(const Entry& entry, ChunkPlace& place) {
    CODECFS_ASSIGN(const ChunkInfo info, source_.locate(entry.object, place.number));
    if (info.filter_mask != 0) return {};
    CODECFS_ASSIGN(const std::optional<uint64_t> size, source_.stored_bytes(entry.object, place.number));
    if (!size || (info.offset && !is_in_file(*info.offset, *size))) return {};
    std::optional<uint64_t> offset = info.offset;
    if (!offset) {
      CODECFS_ASSIGN(offset, source_.stored_offset(entry.object, place.number));
    }
    if (!offset) return {};
    place.offset = *offset;
    place.size = size;
    return {};
  }

  Result<> add_inlined(const std::string& path, TreeFiles::Ino variable, const ChunkGrid& grid, uint64_t number,
                       uint64_t& inlined) {
    CODECFS_ASSIGN(const TreeFiles::Ino file, tree_.find(variable, grid.name_of(number)));
    return tree_.read(file, [&](Bytes content) -> Result<> {
      inlined += content.size();
      if (inlined > kMaxInlined)
        return fail(EOPNOTSUPP,
                    "/{}: its chunks are not in the file as a Zarr reader needs them, and too large to be part of the "
                    "references",
                    path);
      ++found_.inlined;
      found_.inlined_bytes += content.size();
      return sink_.add_content(number, content);
    });
  }

  Result<> add_contiguous(const std::string& path, const std::string& directory, const Entry& entry,
                          const Variable& described, const std::vector<FilterStage>& chain) {
    CODECFS_ASSIGN(const Variable whole, as_one_chunk(described));
    CODECFS_TRY(sink_.add_document(directory + ".zarray", zarray_for_readers(whole, chain)));
    if (described.grid.count() == 0) return {};
    CODECFS_ASSIGN(const ChunkInfo first, source_.locate(entry.object, 0));
    if (!first.stored || !first.offset) return {};
    ++found_.chunks;
    CODECFS_TRY(sink_.begin_chunks(path, whole.grid));
    return sink_.add_place(0, *first.offset, whole.grid.elements_per_chunk() * whole.type.size);
  }

  TreeFiles& tree_;
  Source& source_;
  ReferenceSink& sink_;
  References found_;
};

class JsonReferences final : public ReferenceSink {
 public:
  JsonReferences(const std::string& url, std::function<Result<>(std::string_view)> write)
      : url_(print_json(Json(url))), write_(std::move(write)) {}

  Result<> add_document(const std::string& key, const Json& document) override {
    return add(fmt::format("{}: {}", print_json(Json(key)), print_json(Json(print_json(document)))));
  }
  Result<> begin_chunks(const std::string& path, const ChunkGrid& grid) override {
    const std::string quoted = print_json(Json(path.empty() ? "" : path + "/"));
    directory_ = quoted.substr(0, quoted.size() - 1);
    grid_ = grid;
    return {};
  }
  Result<> add_place(uint64_t number, uint64_t offset, uint64_t size) override {
    return add(fmt::format("{}{}\": [{}, {}, {}]", directory_, grid_.name_of(number), url_, offset, size));
  }
  Result<> add_content(uint64_t number, Bytes content) override {
    return add(fmt::format("{}{}\": \"base64:{}\"", directory_, grid_.name_of(number), encode_base64(content)));
  }
  Result<> finish() override {
    if (is_first_) text_ += kBegin;
    text_ += "\n}}\n";
    return write_(text_);
  }

 private:
  static constexpr std::string_view kBegin = "{\"version\": 1, \"refs\": {";

  Result<> add(std::string_view item) {
    text_ += is_first_ ? kBegin : std::string_view(",");
    text_ += '\n';
    is_first_ = false;
    text_ += item;
    if (text_.size() < kPiece) return {};
    CODECFS_TRY(write_(text_));
    text_.clear();
    return {};
  }

  const std::string url_;  // with quotes
  const std::function<Result<>(std::string_view)> write_;
  std::string directory_;  // of the chunks, with the first quote
  ChunkGrid grid_;
  std::string text_;
  bool is_first_ = true;
};

}  // namespace

Result<References> collect_references(std::unique_ptr<Source> source, ReferenceSink& sink) {
  if (!S_ISREG(source->status().st_mode))
    return fail(EOPNOTSUPP, "references are of one file; {} is not", source->format());
  TreeFiles tree(std::move(source), {.view = fs::View::encoded});
  return Collector(tree, sink).run();
}

std::unique_ptr<ReferenceSink> make_json_references(std::string url,
                                                    std::function<Result<>(std::string_view text)> write) {
  return std::make_unique<JsonReferences>(std::move(url), std::move(write));
}

Result<std::string> references_text(Source& source, const std::string& url) {
  if (!is_utf8(url)) return fail(EILSEQ, "{}: references name files in UTF-8", url);
  std::string text;
  const auto sink = make_json_references(url, [&](std::string_view piece) -> Result<> {
    if (text.size() + piece.size() > kMaxText)
      return fail(EFBIG, "the references take more than {} MiB; use codecfs refs --parquet", kMaxText >> 20);
    text += piece;
    return {};
  });
  CODECFS_TRY(collect_references(std::make_unique<WrappedSource>(source), *sink));
  return text;
}

}  // namespace codecfs::commands
