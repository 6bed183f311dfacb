// Filter specs: every form of a constant with its exact words, names, white space, and for each malformed spec the
// character that is wrong. The vectors of netCDF-C's own tests are marked as such.

#include "filters/core/filter_spec.h"

#include <dlfcn.h>

#include <cstdlib>

#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

using Words = std::vector<uint32_t>;

std::string describe(const Result<std::vector<FilterStage>>& chain) {
  if (!chain) return chain.error().reason;
  const Result<std::string> text = print_filter_spec(*chain);
  return text ? *text : text.error().reason;
}

/// The words of one constant.
std::string words_of(const std::string& constant) {
  const std::string text = describe(parse_filter_spec("32768," + constant));
  return text.starts_with("32768,") ? text.substr(6) : text;
}

TEST(FilterSpec, ReadsFlagsAsH5repackWritesThem) {
  const auto chain = parse_filter_spec("2 | UD=307,0,1,9|ud= 32015, 1 ,0");
  ASSERT_TRUE(chain) << chain.error().reason;
  ASSERT_EQ(chain->size(), 3);
  EXPECT_FALSE((*chain)[0].has_flag);
  EXPECT_TRUE((*chain)[1].has_flag);
  EXPECT_FALSE((*chain)[1].optional);
  EXPECT_TRUE((*chain)[2].has_flag);
  EXPECT_TRUE((*chain)[2].optional);
  EXPECT_EQ(describe(chain), "2|307,9|32015");
  EXPECT_EQ(print_stored_spec(*chain), "");  // of the first the flag is not known
  EXPECT_EQ(print_stored_spec(std::span(*chain).subspan(1)), "UD=307,0,1,9|UD=32015,1,0");
  EXPECT_EQ(describe(parse_filter_spec("UD=307,2,1,9")),
            "character 8 of \"UD=307,2,1,9\": after UD= and the id: 1 for an optional filter, or 0");
  EXPECT_EQ(describe(parse_filter_spec("UD=307,1,2,9")),
            "character 10 of \"UD=307,1,2,9\": this says 2 parameters, and 1 follow");
}

// nc_test4/tst_filterparser.c: the text and the words that netCDF-C expects of it.
TEST(FilterSpec, ReadsTheOfficialVector) {
  const auto chain = parse_filter_spec(
      "32768, -17b, 23ub, -25S, 27US, 77, 93U, 2147483647, -2147483648, 4294967295, 789f, -9223372036854775807L, "
      "18446744073709551615UL, 12345678.12345678d");
  ASSERT_TRUE(chain) << chain.error().reason;
  ASSERT_EQ(chain->size(), 1);
  EXPECT_EQ((*chain)[0].id, 32768);
  EXPECT_EQ((*chain)[0].parameters, (Words{239, 23, 65511, 27, 77, 93, 2147483647, 2147483648, 4294967295, 1145389056,
                                           1, 2147483648, 4294967295, 4294967295, 3287505826, 1097305129}));
}

// nc_test4/tst_filter.sh: the output of ncdump is accepted unchanged.
TEST(FilterSpec, ReadsWhatNcdumpPrints) {
  const std::string text =
      "32768,3,239,23,65511,27,77,93,1145389056,3287505826,1097305129,1,2147483648,4294967295,4294967295";
  EXPECT_EQ(describe(parse_filter_spec(text)), text);
}

TEST(FilterSpec, EveryFormOfAConstantHasItsWords) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      // The table of the filter document.
      {"-17b", "239"},
      {"23ub", "23"},
      {"-25S", "65511"},
      {"27US", "27"},
      {"-77", "4294967219"},
      {"77", "77"},
      {"93U", "93"},
      {"789f", "1145389056"},
      {"12345678.12345678d", "3287505826,1097305129"},
      {"-9223372036854775807L", "1,2147483648"},
      {"18446744073709551615UL", "4294967295,4294967295"},
      // Letters of the other case.
      {"-17B", "239"},
      {"23UB", "23"},
      {"23uB", "23"},
      {"-25s", "65511"},
      {"27us", "27"},
      {"93u", "93"},
      {"789F", "1145389056"},
      {"1D", "0,1072693248"},
      {"5l", "5,0"},
      {"5Ul", "5,0"},
      // Bytes and shorts are cut and zero-extended, whatever their sign.
      {"255b", "255"},
      {"-1b", "255"},
      {"-128b", "128"},
      {"256b", "0"},
      {"300ub", "44"},
      {"-1s", "65535"},
      {"-32768s", "32768"},
      {"65537us", "1"},
      {"-1u", "4294967295"},
      {"-17ub", "239"},
      // The ends of each range.
      {"0", "0"},
      {"-0", "0"},
      {"007", "7"},
      {"4294967295", "4294967295"},
      {"4294967295u", "4294967295"},
      {"-2147483648", "2147483648"},
      {"9223372036854775807l", "4294967295,2147483647"},
      {"-9223372036854775808l", "0,2147483648"},
      {"-1l", "4294967295,4294967295"},
      {"-1ul", "4294967295,4294967295"},
      // Without a tag, what takes 64 bits has two words.
      {"4294967296", "0,1"},
      {"18446744073709551615", "4294967295,4294967295"},
      // Floats in all spellings.
      {"1f", "1065353216"},
      {"-1f", "3212836864"},
      {"3.5f", "1080033280"},
      {"0f", "0"},
      {"-0f", "2147483648"},
      {".5f", "1056964608"},
      {"5.f", "1084227584"},
      {"1e3f", "1148846080"},
      {"1E+3f", "1148846080"},
      {"15e-1d", "0,1073217536"},
      {"1d", "0,1072693248"},
      {"-0.1d", "2576980378,3216611737"},
      {"3.4028234663852886e38f", "2139095039"},
      {"1e-45f", "1"},
      {"1.7976931348623157e308d", "4294967295,2146435071"},
      {"5e-324d", "1,0"},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(text), words) << text;
}

TEST(FilterSpec, ReadsChains) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"307", "307"},
      {"307,9", "307,9"},
      {"307,9|40000", "307,9|40000"},
      {"307,9|4,32,32", "307,9|4,32,32"},
      {"307,9|", "307,9"},
      {"307,9 | ", "307,9"},
      {" 307 , 9 |\t4,\n32 , 32 \r\n", "307,9|4,32,32"},
      {"[0]307,9", "307,9"},
      {" [ 0 ] 307,9|4", "307,9|4"},
      {"4294967295", "4294967295"},
      {"1,5|1,6", "1,5|1,6"},  // as written: arrange_chain() changes the order
      // No filters.
      {"", ""},
      {" \n", ""},
      {"none", ""},
      {" NONE\n", ""},
      {"[0]", ""},
      {"[0]none", ""},
  };
  for (const auto& [text, printed] : cases) EXPECT_EQ(describe(parse_filter_spec(text)), printed) << text;
}

TEST(FilterSpec, KnowsNames) {
  const std::vector<std::pair<const char*, uint32_t>> names = {
      // The filter document's table; deflate, shuffle and fletcher32 have HDF5's real ids.
      {"zip", 1},
      {"zlib", 1},
      {"deflate", 1},
      {"szip", 4},
      {"bzip2", 307},
      {"lzf", 32000},
      {"blosc", 32001},
      {"mafisc", 32002},
      {"snappy", 32003},
      {"lz4", 32004},
      {"apax", 32005},
      {"cbf", 32006},
      {"jpeg-xr", 32007},
      {"bitshuffle", 32008},
      {"spdp", 32009},
      {"lpc-rice", 32010},
      {"ccsds-123", 32011},
      {"jpeg-ls", 32012},
      {"zfp", 32013},
      {"fpzip", 32014},
      {"zstandard", 32015},
      {"b3d", 32016},
      {"sz", 32017},
      {"fcidecomp", 32018},
      {"user-defined", 32768},
      // Aliases in use today.
      {"gzip", 1},
      {"zstd", 32015},
      {"bz2", 307},
      {"blosc2", 32026},
      {"shuffle", 2},
      {"fletcher32", 3},
      {"nbit", 5},
      {"scaleoffset", 6},
  };
  for (const auto& [name, id] : names) {
    EXPECT_EQ(describe(parse_filter_spec(name)), std::to_string(id)) << name;
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(describe(parse_filter_spec(" " + upper + " ,1|2")), std::to_string(id) + ",1|2") << name;
  }
  ASSERT_TRUE(register_filter({.id = 40200, .name = "test.spec_name", .aliases = {"test-spec-alias"}}));
  EXPECT_EQ(describe(parse_filter_spec("Test.Spec_Name,1|test-spec-ALIAS")), "40200,1|40200");
}

// Position 0: at the end of the text.
struct Malformed {
  const char* text;
  int position;
  const char* says;
};

TEST(FilterSpec, RefusesWhatIsMalformedAndPointsAtIt) {
  const std::vector<Malformed> cases = {
      // What netcdf-c misreads without an error.
      {"307,3.5", 6, "add f or d"},
      {"307,1e3", 6, "add f or d"},
      {"307,.5", 5, "add f or d"},
      {"307,5.", 6, "add f or d"},
      {"307,-1e-3", 7, "add f or d"},
      {"307,0x1F", 6, "decimal"},
      {"307,0X10", 6, "decimal"},
      {"307,5lu", 7, "ul"},
      {"307,5bu", 7, "ub"},
      {"307,5SU", 7, "us"},
      {"307abc", 4, "number, or a name"},
      {"0x10", 2, "number, or a name"},
      {"307u", 4, "number, or a name"},
      {"3.5", 2, "number, or a name"},
      {"-1", 1, "not negative"},
      {"307,18446744073709551616", 5, "64 bits"},
      {"307,4294967296u", 5, "32 bits: make it ul"},
      {"307,-2147483649", 5, "32 bits: add l"},
      {"307,-2147483649u", 5, "32 bits"},
      {"307,4294967296b", 5, "32 bits"},
      {"307,-2147483649us", 5, "32 bits"},
      {"307,9223372036854775808l", 5, "make it ul"},
      {"307,-9223372036854775809l", 5, "64 bits"},
      {"307,-9223372036854775809ul", 5, "64 bits"},
      {"307,18446744073709551616ul", 5, "64 bits"},
      {"307,99999999999999999999999999", 5, "64 bits"},
      {"4294967296", 1, "32 bits"},
      {"307,1e39f", 5, "32-bit float"},
      {"307,-1e39f", 5, "32-bit float"},
      {"307,1e-60f", 5, "32-bit float"},
      {"307,1e400d", 5, "64-bit float"},
      {"307,1e400f", 5, "64-bit float"},
      {"307,1e-400d", 5, "64-bit float"},
      // Numbers without digits.
      {"307,b", 5, "digit"},
      {"307,-", 0, "digit"},
      {"307,-f", 6, "digit"},
      {"307,f", 5, "digit"},
      {"307,.f", 5, "digit"},
      {"307,.", 5, "digit"},
      {"307,e5d", 5, "digit"},
      {"307,inff", 5, "digit"},
      {"307,-infd", 6, "digit"},
      {"307,nanf", 5, "digit"},
      {"307,1ef", 7, "exponent"},
      {"307,1e+d", 8, "exponent"},
      {"307,--5", 6, "digit"},
      {"307,+5", 5, "'+'"},
      // Invalid tags.
      {"307,9x", 6, "not a type"},
      {"307,9bb", 7, "not a type"},
      {"307,5ll", 7, "one l"},
      {"307,5ull", 8, "one l"},
      {"307,5uf", 7, "not a type"},
      {"307,5ud", 7, "not a type"},
      {"307,5 f", 6, "not a type"},
      {"307,1 2", 6, "not a type"},
      {"307,3.5.5f", 8, "not a type"},
      {"307,3.5u", 6, "no fraction"},
      {"307,3.5b", 6, "no fraction"},
      {"307,1e3l", 6, "no fraction"},
      {"307,\xc2\xb5", 5, "digit"},
      {"307,5\xc2\xb5", 6, "not a type"},
      // Something is missing.
      {"307,", 0, "missing"},
      {"307, ", 0, "missing"},
      {"307,,5", 5, "missing"},
      {"307,5,", 0, "missing"},
      {"307,|4", 5, "missing"},
      {"|307,9", 1, "missing"},
      {"|", 1, "missing"},
      {"307,9||40000", 7, "missing"},
      {"307|  |", 7, "missing"},
      {"307,9||", 7, "missing"},
      {",9", 1, "missing"},
      {"[0]|307", 4, "missing"},
      // Format tags.
      {"[", 0, "[0]"},
      {"[]307", 2, "[0]"},
      {"[0", 0, "']'"},
      {"[0 307,9", 4, "']'"},
      {"[1]307", 2, "[0]"},
      {"[a]307", 2, "[0]"},
      {"[0][0]307", 4, "number, or a name"},
      {"307,9|[0]4", 7, "number, or a name"},
      // Names.
      {"nosuchfilter,1", 1, "no filter of this name"},
      {"307|nosuchfilter", 5, "no filter of this name"},
      {"bzip2 9", 6, "letters"},
      {"bzip2;9", 6, "letters"},
      {"bz\xc3\xacp", 3, "letters"},
      {"none|307", 1, "alone"},
      {"307|none", 5, "alone"},
      {"none,9", 1, "alone"},
      {"delta,1", 1, "no HDF5 filter id"},
      {"307|numcodecs.lz4", 5, "no HDF5 filter id"},
      {"_x", 1, "number, or a name"},
      {"*", 1, "number, or a name"},
      {"+307", 1, "number, or a name"},
      {"0", 1, "none"},
      {"307;9", 4, "number, or a name"},
      {"3 07", 2, "number, or a name"},
      {"307,9&4", 6, "not a type"},
  };
  EXPECT_GE(cases.size(), 60U);
  for (const Malformed& test : cases) {
    const auto chain = parse_filter_spec(test.text);
    ASSERT_FALSE(chain) << test.text << " gave " << describe(chain);
    const Error& error = chain.error();
    EXPECT_EQ(error.code, EINVAL) << test.text;
    const std::string where =
        test.position == 0 ? "at the end of \"" : "character " + std::to_string(test.position) + " of \"";
    EXPECT_TRUE(error.reason.starts_with(where)) << test.text << ": " << error.reason;
    EXPECT_NE(error.reason.find(test.says), std::string::npos) << test.text << ": " << error.reason;
  }
}

TEST(FilterSpec, RefusesNulAndControlCharactersInOneLine) {
  for (const char c : {'\0', '\x01', '\x7f', '\x1b'}) {
    for (const std::string& text : {std::string("307,9") + c, std::string("307") + c, std::string(1, c)}) {
      const auto chain = parse_filter_spec(text);
      ASSERT_FALSE(chain) << int(c);
      for (const char shown : chain.error().reason) EXPECT_GE(static_cast<unsigned char>(shown), ' ');
    }
  }
  EXPECT_EQ(reason(parse_filter_spec("1\n2")).find('\n'), std::string::npos);
}

TEST(FilterSpec, RefusesChainsLongerThanAMask) {
  std::string text = "1";
  for (size_t i = 1; i < kMaxChain; ++i) text += "|1";
  EXPECT_EQ(parse_filter_spec(text)->size(), kMaxChain);
  EXPECT_EQ(parse_filter_spec(text + "|")->size(), kMaxChain);
  EXPECT_NE(reason(parse_filter_spec(text + "|1")).find("character 65 of"), std::string::npos);
}

// A long text is cut around the error, whole characters only; the position is that in the whole text.
TEST(FilterSpec, ShowsAPartOfALongText) {
  std::string text = "307";
  for (int i = 0; i < 10000; ++i) text += ",1";
  const std::string long_text = text + "\xc2\xb5" + text.substr(3);
  const std::string message = reason(parse_filter_spec(long_text));
  EXPECT_TRUE(message.starts_with("character 20004 of \"...,1,1,")) << message;
  EXPECT_NE(message.find("...\": this is not a type"), std::string::npos) << message;
  EXPECT_LT(message.size(), 250U);
  EXPECT_EQ(parse_filter_spec(text)->front().parameters.size(), 10000U);
  // There is no UTF-8 character boundary in this text.
  EXPECT_LT(reason(parse_filter_spec(text + "x" + std::string(1000, '\xad'))).size(), 250U);
}

TEST(FilterSpec, ReadsFromAStart) {
  EXPECT_EQ(describe(parse_filter_spec("\xc3\xa9,307,9", 3)), "307,9");
  EXPECT_TRUE(reason(parse_filter_spec("\xc3\xa9,307,x", 3)).starts_with("character 7 of \"\xc3\xa9,307,x\""));
  EXPECT_EQ(describe(parse_filter_spec("307", 3)), "");
}

// print(parse(x)) is canonical: it parses to the same chain and prints to itself.
TEST(FilterSpec, PrintedTextParsesBackToItself) {
  for (const char* text :
       {"307,-17b,23ub,-25S,27US,-77,77,93U,789f,12345678.12345678d,-9223372036854775807L,18446744073709551615UL",
        "[0] Shuffle,4 | ZSTD,3 |", "none", "", "blosc2|jpeg-xr,1e10f"}) {
    const auto chain = parse_filter_spec(text);
    ASSERT_TRUE(chain) << chain.error().reason;
    const std::string printed = *print_filter_spec(*chain);
    const auto again = parse_filter_spec(printed);
    ASSERT_TRUE(again) << again.error().reason;
    EXPECT_EQ(*print_filter_spec(*again), printed);
    ASSERT_EQ(again->size(), chain->size());
    for (size_t i = 0; i < chain->size(); ++i) {
      EXPECT_EQ((*again)[i].id, (*chain)[i].id);
      EXPECT_EQ((*again)[i].parameters, (*chain)[i].parameters);
    }
  }
}

// netCDF-C's own parser, where its library is there, gives the same words for every well-formed constant.
TEST(FilterSpec, AgreesWithNetcdf) {
  using Parse = int(const char* text, unsigned* id, size_t* count, unsigned** parameters);
  void* const library = dlopen("libnetcdf.so.19", RTLD_NOW | RTLD_LOCAL);
  auto* const parse =
      library == nullptr ? nullptr : reinterpret_cast<Parse*>(dlsym(library, "ncaux_h5filterspec_parse"));
  if (parse == nullptr) GTEST_SKIP() << "no libnetcdf 4.9 here";

  std::mt19937_64 random(11);
  const auto pick = [&](std::initializer_list<const char*> choices) {
    return choices.begin()[random() % choices.size()];
  };
  const auto digits = [&](unsigned bits) { return std::to_string(random() >> (64 - bits) >> random() % bits); };
  for (int round = 0; round < 20000; ++round) {
    std::string constant = pick({"", "-"});
    switch (random() % 5) {
      case 0: constant += digits(31) + pick({"", "u", "U", "b", "B", "ub", "s", "S", "US"}); break;
      case 1: constant += digits(63) + pick({"l", "L"}); break;
      case 2: constant = digits(64) + pick({"ul", "UL", "Ul"}); break;
      case 3: constant = digits(32) + pick({"", "u"}); break;
      default:
        constant +=
            digits(40) + "." + digits(50) + pick({"", "e-3", "E7", "e+12", "e-30"}) + pick({"f", "F", "d", "D"});
    }
    unsigned id = 0;
    size_t count = 0;
    unsigned* parameters = nullptr;
    const std::string text = "307," + constant;
    ASSERT_EQ(parse(text.c_str(), &id, &count, &parameters), 0) << text;
    const Words theirs(parameters, parameters + count);
    std::free(parameters);
    const auto ours = parse_filter_spec(text);
    ASSERT_TRUE(ours) << ours.error().reason;
    ASSERT_EQ(ours->front().parameters, theirs) << text;
  }
}

// Random texts of the characters in specs: a pipeline that parses back to itself, or an error with a position.
TEST(FilterSpec, AnyTextGivesAChainOrAPosition) {
  constexpr std::string_view kAlphabet = "0123456789,,,,||[]-+.eEfFdDbBsSuUlL xXnoneNONE\t\\*&\xff\xc3";
  std::mt19937 random(7);
  size_t good = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text;
    for (size_t size = random() % 12; size > 0; --size) text += kAlphabet[random() % kAlphabet.size()];
    const auto chain = parse_filter_spec(text);
    if (chain) {
      ++good;
      const std::string printed = *print_filter_spec(*chain);
      EXPECT_EQ(describe(parse_filter_spec(printed)), printed) << text;
    } else {
      EXPECT_NE(chain.error().reason.find(" of \""), std::string::npos) << text;
    }
  }
  EXPECT_GT(good, 500U);
}

}  // namespace
}  // namespace codecfs::filters
