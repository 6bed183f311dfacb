#include "commands/parquet_writer.h"

#include <cstring>
#include <limits>
#include <utility>

#include "filters/codecs/zstd_frames.h"

namespace codecfs::commands {
namespace {

// Numbers of parquet.thrift.
constexpr int kInt64 = 2;
constexpr int kByteArray = 6;
constexpr int kRequired = 0;
constexpr int kOptional = 1;
constexpr int kUtf8 = 0;
constexpr int kPlain = 0;
constexpr int kRle = 3;
constexpr int kRleDictionary = 8;
constexpr int kZstd = 6;
constexpr int kDataPage = 0;
constexpr int kDictionaryPage = 2;

constexpr int kZstdLevel = 3;
constexpr uint64_t kMaxPage = std::numeric_limits<int32_t>::max();  // bytes

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_little_endian(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

/// A value of PLAIN encoding.
void put_byte_array(std::string& out, std::string_view bytes) {
  put_little_endian(out, bytes.size(), 4);
  out += bytes;
}

/// A run of the hybrid of RLE and bit packing, for values of one bit.
void put_run(std::string& out, uint64_t count, bool value) {
  if (count == 0) return;
  put_varint(out, count << 1);
  out += static_cast<char>(value);
}

/// One struct of Thrift's compact protocol. Fields must be put in ascending order of their numbers.
class Struct {
 public:
  explicit Struct(std::string& out) : out_(out) {}
  ~Struct() { out_ += '\0'; }
  Struct(const Struct&) = delete;
  Struct& operator=(const Struct&) = delete;

  void put_int(int field, int64_t value) { put(field, 5, value); }
  void put_long(int field, int64_t value) { put(field, 6, value); }
  void put_string(int field, std::string_view value) {
    put_header(field, 8);
    put_varint(out_, value.size());
    out_ += value;
  }
  /// The caller puts a Struct.
  std::string& begin_struct(int field) {
    put_header(field, kStruct);
    return out_;
  }
  /// The caller puts the items.
  std::string& begin_list(int field, int type, size_t size) {
    put_header(field, 9);
    if (size < 15) {
      out_ += static_cast<char>(size << 4 | static_cast<size_t>(type));
    } else {
      out_ += static_cast<char>(0xf0 | type);
      put_varint(out_, size);
    }
    return out_;
  }
  void put_ints(int field, std::span<const int> values) {
    begin_list(field, 5, values.size());
    for (const int value : values) put_zigzag(value);
  }
  static constexpr int kString = 8;
  static constexpr int kStruct = 12;

 private:
  void put_header(int field, int type) {
    out_ += static_cast<char>((field - last_) << 4 | type);
    last_ = field;
  }
  void put(int field, int type, int64_t value) {
    put_header(field, type);
    put_zigzag(value);
  }
  void put_zigzag(int64_t value) { put_varint(out_, static_cast<uint64_t>(value) << 1 ^ (value < 0 ? ~0ULL : 0)); }

  std::string& out_;
  int last_ = 0;
};

/// The definition levels of an optional column, 1 where it has a value: with their length, as in data pages of version
/// 1.
class Levels {
 public:
  void add(uint64_t count, bool is_set) {
    if (count == 0) return;
    if (is_set != is_set_) {
      put_run(runs_, std::exchange(count_, 0), is_set_);
      is_set_ = is_set;
    }
    count_ += count;
  }
  std::string take() {
    put_run(runs_, count_, is_set_);
    std::string content;
    put_byte_array(content, runs_);
    return content;
  }

 private:
  std::string runs_;
  uint64_t count_ = 0;
  bool is_set_ = false;
};

}  // namespace

ParquetWriter::ParquetWriter(uint32_t rows) : rows_(rows) {}

Result<> ParquetWriter::add_numbers(std::string_view name, std::span<const int64_t> values) {
  Column column{.name = std::string(name), .type = kInt64, .encodings = {kPlain}};
  std::string content;
  content.reserve(values.size() * 8);
  for (const int64_t value : values) put_little_endian(content, static_cast<uint64_t>(value), 8);
  CODECFS_TRY(add_page(column, {.values = values.size(), .encoding = kPlain}, content));
  columns_.push_back(std::move(column));
  return {};
}

Result<> ParquetWriter::add_text(std::string_view name, std::string_view text, const std::vector<bool>& is_set) {
  Column column{.name = std::string(name),
                .type = kByteArray,
                .is_optional = true,
                .is_text = true,
                .encodings = {kPlain, kRle, kRleDictionary}};
  std::string dictionary;
  put_byte_array(dictionary, text);
  CODECFS_TRY(add_page(column, {.is_dictionary = true, .values = 1, .encoding = kPlain}, dictionary));
  Levels levels;
  uint64_t count = 0;
  for (const bool is : is_set) {
    levels.add(1, is);
    if (is) ++count;
  }
  column.nulls = rows_ - count;
  std::string content = levels.take();
  content += '\1';  // bits of an index into the dictionary
  put_run(content, count, false);
  CODECFS_TRY(add_page(column, {.values = rows_, .encoding = kRleDictionary}, content));
  columns_.push_back(std::move(column));
  return {};
}

Result<> ParquetWriter::add_bytes(std::string_view name, std::span<const Cell> cells) {
  Column column{.name = std::string(name), .type = kByteArray, .is_optional = true, .encodings = {kPlain, kRle}};
  Levels levels;
  uint32_t row = 0;
  for (const Cell& cell : cells) {
    levels.add(cell.row - row, false);
    levels.add(1, true);
    row = cell.row + 1;
  }
  levels.add(rows_ - row, false);
  column.nulls = rows_ - cells.size();
  std::string content = levels.take();
  for (const Cell& cell : cells) put_byte_array(content, cell.bytes);
  CODECFS_TRY(add_page(column, {.values = rows_, .encoding = kPlain}, content));
  columns_.push_back(std::move(column));
  return {};
}

Result<> ParquetWriter::add_page(Column& column, const Page& page, std::string_view content) {
  if (content.size() > kMaxPage) return fail(EFBIG, "column {} is too large for a page of Parquet", column.name);
  CODECFS_ASSIGN(const Buffer compressed,
                 filters::codecs::zstd_encode(std::as_bytes(std::span(content)), kZstdLevel, false));
  if (compressed.size() > kMaxPage) return fail(EFBIG, "column {} is too large for a page of Parquet", column.name);
  std::string header;
  {
    Struct fields(header);
    fields.put_int(1, page.is_dictionary ? kDictionaryPage : kDataPage);
    fields.put_int(2, static_cast<int64_t>(content.size()));
    fields.put_int(3, static_cast<int64_t>(compressed.size()));
    Struct of_kind(fields.begin_struct(page.is_dictionary ? 7 : 5));
    of_kind.put_int(1, static_cast<int64_t>(page.values));
    of_kind.put_int(2, page.encoding);
    if (!page.is_dictionary) {
      of_kind.put_int(3, kRle);  // of definition levels
      of_kind.put_int(4, kRle);  // of repetition levels
    }
  }
  (page.is_dictionary ? column.dictionary_page : column.first_page) = file_.size();
  file_ += header;
  file_.append(reinterpret_cast<const char*>(compressed.data()), compressed.size());
  column.raw_bytes += header.size() + content.size();
  column.bytes += header.size() + compressed.size();
  return {};
}

std::string ParquetWriter::metadata() const {
  std::string text;
  {
    Struct file(text);
    file.put_int(1, 1);  // version
    file.begin_list(2, Struct::kStruct, columns_.size() + 1);
    {
      Struct root(text);
      root.put_string(4, "schema");
      root.put_int(5, static_cast<int64_t>(columns_.size()));
    }
    for (const Column& column : columns_) {
      Struct element(text);
      element.put_int(1, column.type);
      element.put_int(3, column.is_optional ? kOptional : kRequired);
      element.put_string(4, column.name);
      if (column.is_text) element.put_int(6, kUtf8);
    }
    file.put_long(3, rows_);
    file.begin_list(4, Struct::kStruct, 1);
    {
      Struct group(text);
      group.begin_list(1, Struct::kStruct, columns_.size());
      uint64_t bytes = 0;
      for (const Column& column : columns_) {
        const uint64_t begin = column.dictionary_page != 0 ? column.dictionary_page : column.first_page;
        Struct chunk(text);
        chunk.put_long(2, static_cast<int64_t>(begin));
        Struct of_column(chunk.begin_struct(3));
        of_column.put_int(1, column.type);
        of_column.put_ints(2, column.encodings);
        of_column.begin_list(3, Struct::kString, 1);
        put_varint(text, column.name.size());
        text += column.name;
        of_column.put_int(4, kZstd);
        of_column.put_long(5, rows_);
        of_column.put_long(6, static_cast<int64_t>(column.raw_bytes));
        of_column.put_long(7, static_cast<int64_t>(column.bytes));
        of_column.put_long(9, static_cast<int64_t>(column.first_page));
        if (column.dictionary_page != 0) of_column.put_long(11, static_cast<int64_t>(column.dictionary_page));
        // fastparquet makes floating-point numbers of integers unless it knows that none is null.
        Struct statistics(of_column.begin_struct(12));
        statistics.put_long(3, static_cast<int64_t>(column.nulls));
        bytes += column.raw_bytes;
      }
      group.put_long(2, static_cast<int64_t>(bytes));
      group.put_long(3, rows_);
    }
    file.put_string(6, "codecfs");
  }
  return text;
}

std::string ParquetWriter::finish() {
  const std::string text = metadata();
  file_ += text;
  put_little_endian(file_, text.size(), 4);
  file_ += "PAR1";
  return std::move(file_);
}

}  // namespace codecfs::commands
