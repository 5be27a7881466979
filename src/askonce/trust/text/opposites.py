"""Words that exclude each other: opposites, and sets of which one member is meant."""

from __future__ import annotations

OPPOSITES = """
on off | enable disable | activate deactivate | before after | increase decrease | buy sell
most least | max min | maximum minimum | import export | safe unsafe | safe dangerous | open close
open closed | start stop | start end | begin end | upload download | accept decline
approve decline | add remove | install uninstall | subscribe unsubscribe | lock unlock
freeze unlock | mute unmute | follow unfollow | hide show | hidden visible | connect disconnect
login logout | signup cancel | checkin checkout | attach detach | encrypt decrypt
compress decompress | zip unzip | push pull | input output | read write | send get | borrow lend
lend repay | give take | win lose | gain lose | pass fail | succeed fail
success failure | improve damage | improve worsen | good bad | better worse | best worst
high low | higher lower | upper lower | top bottom | up down | left right | over under
above below | more less | more fewer | many few | large small | biggest smallest
largest smallest | highest lowest | longest shortest | tallest shortest | fastest slowest
cheapest expensive | oldest youngest | oldest newest | first last | early late | earliest latest
long short | tall short | fast slow | hot cold | wet dry | rich poor | strong weak | thick thin
fat thin | hard soft | heavy light | light dark | old new | old young | near far | full empty
full part | cheap expensive | easy difficult | simple complex | clean dirty | public private
internal external | domestic international | incoming outgoing | inbound outbound | inside outside
indoor outdoor | include exclude | inclusive exclusive | with without | love hate | like dislike
friend enemy | allow forbid | allow ban | allow prevent | legal illegal | possible impossible
positive negative | offensive defensive | optimistic pessimistic | offline online | asc desc
ascending descending | horizontal vertical | row column | client server | read-only writable
mandatory optional | required optional | required forbidden | temporary permanent | single married
single double | single multiple | guilty innocent | alive dead | present absent | past future
previous next | yesterday tomorrow | today yesterday | today tomorrow | tonight tomorrow
arrive leave | enter leave | join leave | leave stay | come go | hire fire | employer employee
landlord tenant | lender borrower | buyer seller | teacher student | professor student
parent child | adult child | adult baby | male female | man woman | boy girl | husband wife
brother sister | mother father | son daughter | uncle aunt | king queen | gay straight | gross net
profit loss | credit debit | debit creditcard | creditcard debitcard | asset liability
supply demand | winner loser | question answer | cause effect | advantage drawback
benefit drawback | benefit risk | pro con | same different | similar different | equal unequal
true false | correct wrong | fresh stale | raw cooked | sweet sour | smooth rough | sharp blunt
deep shallow | wide narrow | loose tight | tighten loosen | rise fall | grow shrink
expand shrink | ascend descend | lengthen shorten | strengthen weaken | create remove
create destroy | build destroy | attack defend | appear disappear | remember forget | save spend
save waste | earn spend | deposit withdraw | charge refund | sick healthy | healthy unhealthy
ill healthy | pregnant breastfeeding | happy sad | always never | all none | always sometimes
only also | only all | everyone nobody | atleast atmost | first second | asleep awake
summer winter | north south | east west | northern southern | eastern western | morning evening
day night | liquid solid | acid alkaline | forward backward | forwards backwards | inner outer
major minor | majority minority | senior junior | primary secondary | introvert extrovert
introverted extroverted | optimist pessimist | secure insecure | powerful powerless
useful useless | hopeful hopeless | careful careless | manual automatic | analog digital
wired wireless | paid free | paid unpaid | new used | used unused | married divorced
marry divorce | occupied vacant | reward punish | praise criticise | blame praise | agree disagree
appoint dismiss | insert remove | inhale exhale | freeze melt | boil freeze | float sink
"""
"""Pairs, parted by bars."""

EXCLUSIVE = """
monday tuesday wednesday thursday friday saturday sunday weekday weekend
january february march april may june july august september october november december
spring summer autumn winter
usd eur gbp inr jpy cny aud cad chf btc eth
kg g lb oz tonne stone
km mi metre meter cm mm ft inch yard
kb mb gb tb pb
ml litre gallon pint
celsius fahrenheit kelvin
sec min hour day week month quarter year decade century
north south east west
red orange yellow green blue purple pink brown black white grey gray
breakfast brunch lunch dinner supper
morning afternoon evening night noon midnight
adult child baby teenager toddler senior
man woman boy girl
mother father brother sister son daughter uncle aunt cousin husband wife grandmother grandfather
iphone android windows mac macos linux ios ubuntu
free basic standard premium pro enterprise business starter team plus
full half part quarter
bus train plane tram taxi ferry car bike
flat office shop warehouse garage
cat dog hamster rabbit horse fish bird snake pig cow sheep
gas electricity water oil
python java javascript typescript rust go ruby php perl kotlin swift scala
redis memcached postgresql mysql sqlite mongodb
gmail outlook yahoo hotmail
visa mastercard amex paypal klarna
chrome firefox safari edge
facebook instagram twitter whatsapp snapchat tiktok telegram linkedin
png jpeg jpg gif svg pdf docx xlsx csv json xml yaml
get post put patch
neck shoulder arm elbow wrist hand finger thumb chest hip leg knee ankle foot toe heel eye ear skull
english french german spanish italian chinese japanese arabic russian hindi dutch korean
home international
intern trainee apprentice
today yesterday tomorrow
last next this
chicken beef pork lamb fish tofu vegan vegetarian
small medium large
gold silver bronze platinum
"""
"""One line a set: whoever asks about one member does not ask about another."""

COUNTERPARTS = """
hypo hyper | pre post | ante post | in ex | im ex | in out | de in | macro micro nano | over under
up down | intra inter extra | sub super | mono bi tri poly uni multi | pro anti | endo exo
homo hetero | maxi mini | fore after | hemi semi | bio geo | thermo hydro | photo radio
"""
"""Prefixes that make different things of one base."""

CONFUSED = """
country county | contract contact | trial trail | quiet quite | later latter | dessert desert
principal principle | stationary stationery | complement compliment | angel angle | moral morale
casual causal | martial marital | united untied | personal personnel | statue statute status
adapt adopt | through thorough | course coarse | insure ensure | elicit illicit
prescribe proscribe | perspective prospective | conscience conscious | council counsel
formally formerly | precede proceed | historic histrionic | lightning lightening | breath breadth
clothes cloths | ingenious ingenuous | respectively respectfully | sensual sensuous
discreet discrete | economic economical | industrial industrious | considerate considerable
immigrate emigrate | immigrant emigrant | immigration emigration | costume custom | expect except
carton cartoon | desperate disparate | diary dairy | assure insure | device devise
collage college | import impart | interstate intestate | mediation medication meditation
prostate prostrate | populace populous | ordinance ordnance | palate palette pallet
simulate stimulate | tortuous torturous | aural oral | cereal serial | ileum ilium
humerus humorous | abduct adduct | abduction adduction | absorb adsorb | absorption adsorption
afferent efferent | ureter urethra | peroneal perineal
"""
"""Words a slip apart that are no slips of each other."""
