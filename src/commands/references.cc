#include "commands/references.h"

#include <utility>
#include <vector>

#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "fs/views/metadata_files.h"
#include "model/base64.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kBatch = 8192;                        // chunks
constexpr uint64_t kMostInlined = uint64_t{16} << 20;  // bytes of a variable
constexpr size_t kPiece = size_t{1} << 20;             // bytes of text that are written at once

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

class Writer {
 public:
  Writer(TreeFiles& tree, const std::string& url, const std::function<Result<>(std::string_view)>& write)
      : tree_(tree),
        source_(tree.filesystem().context().dataset.source()),
        url_(print_json(Json(url))),
        write_(write) {}

  Result<References> run() {
    text_ = "{\"version\": 1, \"refs\": {";
    CODECFS_TRY(walk(
        source_,
        [&](const std::string& path, const Entry& entry) -> Result<> {
          if (interrupted) return fail(ECANCELED, "interrupted");
          const std::string directory = path.empty() ? "" : path + "/";
          if (entry.kind == EntryKind::group) return add_group(directory, entry);
          if (entry.kind == EntryKind::variable) return add_variable(path, directory, entry);
          return {};
        },
        [](const std::string&, const Error& error) -> Result<> { return std::unexpected(error); }));
    text_ += "\n}}\n";
    CODECFS_TRY(write_(text_));
    return found_;
  }

 private:
  Result<> add_text(const std::string& key, const std::string& value) {
    return add(fmt::format("{}: {}", print_json(Json(key)), print_json(Json(value))));
  }

  Result<> add(std::string_view item) {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    text_ += item;
    if (text_.size() < kPiece) return {};
    CODECFS_TRY(write_(text_));
    text_.clear();
    return {};
  }

  Result<> add_group(const std::string& directory, const Entry& entry) {
    CODECFS_TRY(add_text(directory + ".zgroup", print_json(fs::zgroup_json())));
    CODECFS_ASSIGN(const std::vector<Attribute> attributes, source_.group_attributes(entry.object));
    if (attributes.empty()) return {};
    return add_text(directory + ".zattrs", print_json(fs::zattrs_json(attributes)));
  }

  Result<> add_variable(const std::string& path, const std::string& directory, const Entry& entry) {
    CODECFS_ASSIGN(const VariablePtr variable, source_.variable(entry.object));
    CODECFS_ASSIGN(const VariablePtr described, with_fill_value(variable));
    if (described->unreadable) return fail(described->unreadable->code, "/{}: {}", path, described->unreadable->reason);
    CODECFS_ASSIGN(const TreeFiles::Ino ino, tree_.find_path(path));
    CODECFS_ASSIGN(const fs::Place place, tree_.filesystem().context().nodes.at(ino));
    CODECFS_ASSIGN(const fs::EncodedFormPtr form, tree_.filesystem().forms().of(*place.node));
    const bool is_contiguous = described->storage == Storage::contiguous && described->filters.empty() &&
                               described->type.kind != TypeKind::object && form->as_stored;
    CODECFS_TRY(add_text(directory + ".zattrs", print_json(fs::zattrs_json(*described))));
    if (is_contiguous) return add_contiguous(directory, entry, *described, form->chain);
    CODECFS_TRY(add_text(directory + ".zarray", print_json(fs::zarray_json(*described, form->chain))));
    const bool is_in_file = form->as_stored && described->storage == Storage::chunked;
    uint64_t inlined = 0;
    for (uint64_t from = 0;;) {
      CODECFS_ASSIGN(const std::vector<uint64_t> numbers, source_.stored_chunks(entry.object, from, kBatch));
      if (numbers.empty()) return {};
      from = numbers.back() + 1;
      if (interrupted) return fail(ECANCELED, "interrupted");
      for (const uint64_t number : numbers) {
        const std::string name = described->grid.name_of(number);
        if (is_in_file) {
          CODECFS_ASSIGN(const bool is_added, add_reference(directory + name, entry, number));
          if (is_added) continue;
        }
        CODECFS_TRY(add_inlined(path, directory, ino, name, inlined));
      }
    }
  }

  Result<bool> add_reference(const std::string& key, const Entry& entry, uint64_t number) {
    CODECFS_ASSIGN(const ChunkInfo info, source_.locate(entry.object, number));
    if (!info.offset || info.filter_mask != 0) return false;
    CODECFS_ASSIGN(const std::optional<uint64_t> size, source_.stored_bytes(entry.object, number));
    if (!size) return false;
    ++found_.chunks;
    CODECFS_TRY(add(fmt::format("{}: [{}, {}, {}]", quoted(key), url_, *info.offset, *size)));
    return true;
  }

  Result<> add_inlined(const std::string& path, const std::string& directory, TreeFiles::Ino variable,
                       const std::string& name, uint64_t& inlined) {
    CODECFS_ASSIGN(const TreeFiles::Ino file, tree_.find(variable, name));
    return tree_.read(file, [&](Bytes content) -> Result<> {
      inlined += content.size();
      if (inlined > kMostInlined)
        return fail(EOPNOTSUPP,
                    "/{}: its chunks are not in the file as a Zarr reader needs them, and too large to be part of the "
                    "references",
                    path);
      ++found_.inlined;
      found_.inlined_bytes += content.size();
      return add(fmt::format("{}: \"base64:{}\"", quoted(directory + name), encode_base64(content)));
    });
  }

  Result<> add_contiguous(const std::string& directory, const Entry& entry, const Variable& described,
                          const std::vector<FilterStage>& chain) {
    CODECFS_ASSIGN(const Variable whole, as_one_chunk(described));
    CODECFS_TRY(add_text(directory + ".zarray", print_json(fs::zarray_json(whole, chain))));
    if (described.grid.count() == 0) return {};
    CODECFS_ASSIGN(const ChunkInfo first, source_.locate(entry.object, 0));
    if (!first.stored || !first.offset) return {};
    ++found_.chunks;
    return add(fmt::format("{}: [{}, {}, {}]", quoted(directory + whole.grid.name_of(0)), url_, *first.offset,
                           whole.grid.elements_per_chunk() * whole.type.size));
  }

  static std::string quoted(const std::string& text) { return print_json(Json(text)); }

  TreeFiles& tree_;
  Source& source_;
  const std::string url_;
  const std::function<Result<>(std::string_view)>& write_;
  std::string text_;
  bool is_first_ = true;
  References found_;
};

}  // namespace

Result<References> write_references(std::unique_ptr<Source> source, const std::string& url,
                                    const std::function<Result<>(std::string_view text)>& write) {
  if (!S_ISREG(source->status().st_mode))
    return fail(EOPNOTSUPP, "references are of one file; {} is not", source->format());
  TreeFiles tree(std::move(source), {.view = fs::View::encoded});
  return Writer(tree, url, write).run();
}

}  // namespace codecfs::commands
