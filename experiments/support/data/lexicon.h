/// The words of the generated data sets (experiments/support/data/generated.h).
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace fovea::lexicon {

/// The words between the spaces of a text, at compile time.
template <std::size_t n>
constexpr std::array<std::string_view, n> words_of(std::string_view text) {
  std::array<std::string_view, n> words;
  for (std::string_view& word : words) {
    word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

/// Singular and plural of 150 nouns, one after the other.
inline constexpr auto nouns = words_of<300>(
    "key keys cabinet cabinets author authors pilot pilots farmer farmers teacher teachers senator senators lawyer "
    "lawyers doctor doctors nurse nurses singer singers painter painters dancer dancers writer writers editor editors "
    "reporter reporters banker bankers baker bakers butcher butchers builder builders carpenter carpenters driver "
    "drivers sailor sailors soldier soldiers captain captains officer officers guard guards judge judges mayor mayors "
    "governor governors king kings queen queens prince princes princess princesses wizard wizards witch witches giant "
    "giants monk monks priest priests bishop bishops poet poets actor actors actress actresses student students pupil "
    "pupils child children man men woman women boy boys girl girls friend friends neighbor neighbors stranger "
    "strangers visitor visitors guest guests tourist tourists cousin cousins uncle uncles aunt aunts brother brothers "
    "sister sisters wife wives dog dogs cat cats horse horses cow cows pig pigs sheepdog sheepdogs wolf wolves fox "
    "foxes bear bears lion lions tiger tigers monkey monkeys rabbit rabbits mouse mice bird birds eagle eagles crow "
    "crows duck ducks hen hens snake snakes lizard lizards turtle turtles frog frogs ant ants bee bees spider spiders "
    "tree trees flower flowers leaf leaves branch branches root roots bush bushes river rivers lake lakes mountain "
    "mountains valley valleys forest forests island islands road roads street streets bridge bridges tower towers "
    "castle castles church churches school schools library libraries museum museums garden gardens house houses "
    "window windows door doors table tables chair chairs lamp lamps clock clocks mirror mirrors box boxes bag bags "
    "basket baskets bottle bottles glass glasses cup cups knife knives book books letter letters map maps picture "
    "pictures painting paintings statue statues coin coins ring rings hat hats coat coats shoe shoes car cars truck "
    "trucks train trains boat boats ship ships plane planes machine machines engine engines computer computers camera "
    "cameras telephone telephones radio radios hammer hammers ladder ladders");

// Neither these determiners nor past tense show number: only the nouns do.
inline constexpr auto determiners = words_of<7>("the my your his her our their");

inline constexpr auto adjectives = words_of<40>(
    "old new young small large tall short red blue green black white famous quiet loud strange happy sad rich poor "
    "heavy light dark bright broken clean dirty wooden golden silver narrow wide strong weak clever lazy brave gentle "
    "proud hungry");

inline constexpr auto prepositions =
    words_of<16>("near behind beside above below under by with from to around beyond on over against opposite");

inline constexpr auto past_verbs = words_of<44>(
    "saw heard followed admired met called helped praised blamed liked feared found watched visited painted described "
    "noticed remembered forgot ignored pushed carried moved covered crossed passed touched surprised annoyed pleased "
    "chased caught lost bought sold borrowed mentioned drew built broke repaired cleaned hid guarded");

inline constexpr auto conjunctions = words_of<8>("and but while because although before after when");

inline constexpr auto adverbs = words_of<10>("often rarely usually always never still also clearly surely perhaps");

inline constexpr auto positive = words_of<50>(
    "good great wonderful excellent brilliant charming delightful funny moving touching superb beautiful lovely fresh "
    "clever witty honest warm gripping thrilling fascinating enjoyable graceful powerful memorable perfect fine "
    "splendid terrific engaging inspired inventive hilarious heartfelt stunning sweet smart lively rewarding original "
    "satisfying impressive tender remarkable refreshing marvelous elegant vivid joyful compelling");

inline constexpr auto negative = words_of<50>(
    "bad awful terrible dull boring stupid ugly clumsy tedious weak silly shallow cheap messy lifeless pointless "
    "predictable tired stale annoying painful dreadful poor sloppy bland cold dumb empty flat forced horrible lame "
    "lazy mediocre muddled noisy pathetic pretentious ridiculous sour stiff trite uneven unfunny wooden worthless "
    "wretched tasteless confusing dismal");

inline constexpr auto neutral = words_of<213>(
    "the a this that it its film movie story plot scene scenes actor actors cast director script dialogue camera "
    "music score ending beginning character characters audience viewer picture screen theater book novel series "
    "episode sequel studio budget frame shot cut edit sound voice song role part performance performer writer author "
    "producer year years day night time hour hours minute minutes town city house family father mother son daughter "
    "friend friends man woman child children people world life war school job road train car plane street room door "
    "window is was are were be been has had have does did seems looks feels sounds becomes remains takes makes gives "
    "goes comes tells shows follows begins ends plays runs moves turns and or but so yet while when where as if "
    "because though with without for from to of in on at by about after before between through into over under during "
    "against toward he she they we you i him her them us me his their our your my who which what one two three first "
    "second last next other another same each every some any many much more most very really quite rather just only "
    "even still also too again then there here now often always sometimes almost nearly perhaps maybe indeed however");

}  // namespace fovea::lexicon
