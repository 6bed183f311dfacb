// bitround: numcodecs "bitround". Rounds the mantissa of floats to fewer bits, to nearest, ties to even. Decoding
// changes nothing.
//
//   {"id": "bitround", "keepbits": 10}
//
// The dtype is the variable's. As in numcodecs, rounding works on the raw bits: it carries into the exponent, also for
// infinities and NaN.

#include "base/endian.h"
#include "filters/codecs/number_types.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters::codecs::bitround {
namespace {

/// `Word` holds the bits of a float with a mantissa of `mantissa` bits; `foreign`: not in native byte order.
template <class Word>
void round_all(MutableBytes bytes, unsigned mantissa, unsigned keep, bool foreign) {
  const unsigned drop = mantissa - keep;
  const Word mask = static_cast<Word>(static_cast<Word>(~Word{0}) << drop);
  const Word below_half = static_cast<Word>((Word{1} << (drop - 1)) - 1);
  for (size_t i = 0; i < bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    if (foreign) word = byte_swap(word);
    word = static_cast<Word>(word + (word >> drop & 1) + below_half) & mask;
    if (foreign) word = byte_swap(word);
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

Result<Buffer> encode(Bytes in, const DataType& type, int64_t keep) {
  const bool known_float = type.kind == TypeKind::floating && (type.size == 2 || type.size == 4 || type.size == 8);
  if (!known_float) return fail(EINVAL, "dtype {} has no bits to round", print_json(print_dtype(type)));
  const unsigned mantissa = type.size == 2 ? 10 : type.size == 4 ? 23 : 52;
  if (keep < 0 || keep > mantissa)
    return fail(EINVAL, "\"keepbits\": {}; dtype {} has {}", keep, print_json(print_dtype(type)), mantissa);
  if (in.size() % type.size != 0)
    return fail(EINVAL, "{} bytes are not a whole number of elements of {} bytes", in.size(), type.size);
  CODECFS_ASSIGN(Buffer out, Buffer::copy_of(in));
  if (keep == mantissa) return out;
  const bool foreign = is_foreign_order(type);
  const auto kept = static_cast<unsigned>(keep);
  switch (type.size) {
    case 2: round_all<uint16_t>(out.mutable_bytes(), mantissa, kept, foreign); break;
    case 4: round_all<uint32_t>(out.mutable_bytes(), mantissa, kept, foreign); break;
    default: round_all<uint64_t>(out.mutable_bytes(), mantissa, kept, foreign);
  }
  return out;
}

}  // namespace

Filter make_filter() {
  return {
      .name = "bitround",
      .codec = "bitround",
      .check_new = [](const FilterStage& stage, uint64_t item_size) -> Result<> {
        CODECFS_TRY(number_field(stage.codec, "keepbits"));
        CODECFS_TRY(integer_field(stage.codec, "keepbits", -1, 0, item_size == 2 ? 10 : item_size == 4 ? 23 : 52));
        return {};
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        // Parameters that only the encoder needs must not prevent decoding.
        return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; },
                     .encode = [type = context.chunk.type, codec = context.stage.codec](Bytes in) -> Result<Buffer> {
                       CODECFS_ASSIGN(const int64_t keep, integer_field(codec, "keepbits", -1, -1, 64));
                       return encode(in, type, keep);
                     },
                     .encoded = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs::bitround
