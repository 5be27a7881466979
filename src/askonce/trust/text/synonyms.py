"""English words and phrases that mean the same; groups are parted by bars."""

from __future__ import annotations

SYNONYMS = """
get obtain acquire receive | buy purchase | begin start commence | end finish | choose select pick
abroad overseas internationally | challenge dispute contest | submit send
update change modify edit alter amend | street road | cancel terminate
fix repair mend resolve troubleshoot | remove delete erase | create establish | show display
shut close | large big huge | small little tiny | quick fast rapid | difficult hard tough
easy simple | important crucial essential | wrong incorrect | correct right | happy glad
job occupation employment | film movie | picture photo photograph image pic | doctor physician gp
lawyer solicitor | house home | flat apartment | car automobile
phone mobile cellphone smartphone telephone | child kid | baby infant | mom mum mother
dad father | illness disease sickness | medicine medication drug | journey trip travel
holiday vacation | luggage baggage | lorry truck | petrol gasoline | lift elevator | shop store
colour color | favourite favorite | organise organize | programme program | centre center
company firm corporation | customer client | staff personnel | boss supervisor | salary wage
price cost fee charge rate | bill invoice | cashpoint atm | cash money | reimburse refund
discount rebate | dose dosage | symptom sign | treat therapy treatment | cure heal
infection infect | prevent avoid | protect guard | buyer purchaser | author writer | wrote write
answer reply respond response | question query | error mistake fault | problem issue trouble
advice suggestion recommendation suggest recommend | aim goal objective | benefit advantage
drawback disadvantage | meaning mean definition define | distinction difference | opinion view
method technique | kind type sort | amount quantity | allowance allowed permit permitted allow
entitlement entitle | authorise authorize | apply application | document paperwork file
parcel package | deliver delivery | ship shipment dispatch | track trace | timetable schedule
occur happen | location place | nearby near close | email mail | login log-in signin logon
signup register registration enrol enroll | website site webpage | internet web online
laptop notebook | tv television | fridge refrigerator | fit install installation
unfreeze unlock unblock | freeze lock block | decline reject refuse deny | approve accept
obstruct clog | reserve book | meal food | starter appetiser appetizer | dessert pudding
beverage drink | bathroom toilet restroom | insurance cover coverage | lease tenancy
renter tenant | landlord lessor | instalment installment | term semester | class course lecture
professor prof instructor teacher lecturer | teach taught instruct | student pupil
university uni college | exam examination | grade mark score rating | prerequisite prereq
major specialisation | permission consent | legal lawful | illegal unlawful | rule regulation
kill murder | dead deceased | old aged elderly | skinny thin | overweight fat obese
clever smart intelligent | stupid dumb | beautiful pretty | angry mad | scared afraid
rich wealthy | poor impoverished | true real | false fake | hurt injure injury
cold freezing chilly | hot warm | lead leader | last final | recent latest newest
previous former prior | increase raise boost | decrease reduce lower | improve enhance better
damage harm | learn study | understand comprehend grasp | speak talk | earn profit | gain win
lose loss | effect impact influence consequence | reason cause why
famous popular renowned well-known | biggest largest | explain describe | example instance
compare comparison | convert change-into transform conversion | switch move | monitor track-of
join participate | leave depart departure | arrive arrival | return send-back | extra additional
whole entire complete | nation country | citizen national | world globe | planet earth
identify recognise recognize detect | verify confirm verification authenticate | secure safe
stolen steal | lost missing | contact reach | complain complaint | grievance complaint
formal official | renew renewal | expire expiry expiration | withdraw withdrawal | deposit pay-in
transfer wire remit | pay payment | top-up topup | card debit-card | pin passcode | fee charge
currency money-unit | photograph photo | weigh weight | height tall | speed velocity
temperature temp | require necessary | weekly week | daily day | monthly month
yearly annual annually year | nightly night | hourly hour | jail prison | shut-down shutdown
hotel inn | voucher coupon | gift present | chat conversation | bike bicycle
plane aeroplane airplane | flight fly | theme mode | external outside | internal inside
replacement new | nobody none | worker employee | bin trash garbage rubbish
vaccine vaccination vaccinate jab | covid corona coronavirus covid19 | disposable throwaway
us usa america american states | uk britain british | usd dollar $ us-dollar
gbp pound sterling £ | eur euro € | inr rupee ₹ rs | jpy yen ¥ | kg kilo kilogram kilogramme kgs
g gram gramme | lb lbs | oz ounce | km kilometre kilometer kms | mi mile
cm centimetre centimeter | mm millimetre millimeter | ft foot feet | inch inches | min minute mins
hour hr hrs | sec secs | gb gigabyte gig | mb megabyte meg | tb terabyte | kb kilobyte
kwh kilowatt-hour | ml millilitre milliliter | litre liter | celsius centigrade
% percent percentage pct | monday mon | tuesday tue tues | wednesday wed | thursday thu thur thurs
friday fri | saturday sat | january jan | february feb | march mar | april apr | august aug
september sep sept | october oct | november nov | december dec | autumn fall | javascript js
typescript ts | postgresql postgres | kubernetes k8s | database db | config configuration
directory folder | repository repo | function func | parameter param argument
postpone reschedule rearrange | collect collection pickup | takeaway takeout
appointment booking slot | pavement sidewalk | licence license permit | payslip paycheck
resign quit | redundancy layoff | vegetarian veggie | pushchair pram buggy stroller
carryon cabin | stopover layover | synchronise synchronize sync | recover retrieve restore
notification alert | call ring | nearest closest | maximum max | minimum min | broadband internet
handset phone | worldwide global globally international-wide | birthday birthdate
neighbour neighbor | behaviour behavior | cheque check | grey gray | jewellery jewelry | tyre tire
theatre theater | metre meter | analyse analyze analysis | cancellation cancel | practise practice
defence defense | aluminium aluminum | maths math mathematics | cookie biscuit
eggplant aubergine | courgette zucchini | nappy diaper | torch flashlight | queue line
football soccer | post-code zipcode | postcode zip | novel new | eyesight vision
lifespan lifetime | teenager teen | advert ad advertisement | vet veterinarian | dentist dental
hire rent rental | refund refunded | assist assistance | sack dismiss | earnings income
spouse partner | dwelling residence | reside live | cheap affordable | clothes clothing
beginner newbie novice | master expert | tutorial guide | manual handbook | restaurant eatery
pharmacy chemist | supermarket grocery | metro underground subway tube | motorway highway freeway
roundabout rotary | crossing crosswalk | driver chauffeur | postman mailman
policeman policewoman police | firefighter fireman | stomach tummy belly
tired exhausted fatigued | hungry starving | dangerous hazardous risky | nearby local
assignment homework coursework | bachelor undergraduate | postgraduate postgrad
scholarship bursary grant | tuition schooling | deadline cutoff | compute calculate
estimate approximate | password passphrase | username userid | glitch bug defect | reboot restart
plan tariff | subscription membership | member subscriber | smash shatter | leak drip
pipe plumbing | boiler heater | bulb lamp | sofa couch settee | wardrobe closet | curtain drape
tap faucet | hoover vacuum | fence railing | savings saving | investment invest
inheritance inherit | pension retirement | retire retirement | passenger traveller traveler
guest visitor | terrace patio | trainer coach | trainers sneakers | jumper sweater pullover
trousers pants | handbag purse | glasses spectacles | earphones headphones | kindle ereader
bunny rabbit | hound dog | disappear vanish | oblige compel force | attempt effort
ban prohibit forbid | construct build | spill splash | limit cap quota | suitcase bag | wash clean
chop slice | fine penalty | choose opt | allow let | enquire inquire ask | assistance help
speak talk chat | staff team | commute travel | trainer coach | surname lastname
forename firstname | spouse partner
"""
"""A word counts as the first of its group."""

PHRASES = """
good morning = | good afternoon = | good evening = | good day = | hi there = | hello there =
hey there = | quick question = | i have a question = | i have one question = | thanks in advance =
thank you so much = | thank you very much = | thank you = | many thanks = | hope you are well =
hope you are doing well = | sorry to bother you = | just wondering = | figure out = know
work out = calculate | do you happen to know = | i am trying to = | i am looking to =
excuse me = | i appreciate it = | let us say = | wondering if = | wondering = | i would like to =
i need to know = | i want to ask = | can anyone tell me = | can someone tell me =
can somebody tell me = | could someone tell me = | please tell me = | tell me = | would you mind =
any idea = | any chance = | you know = | i mean = | sort of = | kind of = | right now = now
at the moment = now | these days = now | as soon as possible = | by any chance = | in general =
for example = | two factor authentication = 2 fa | two step verification = 2 fa
two factor = 2 fa | united states of america = us | united states = us | united kingdom = uk
great britain = uk | set up = setup | log in = login | sign in = login | sign up = signup
log out = logout | sign out = logout | check out = checkout | check in = checkin | find out = know
get rid of = remove | first of all = | of course = | at first = | i would like to know =
i want to know = | can you tell me = | could you tell me = | do you know = | let me know =
i was wondering = | go about = | as well as = and | as well = | such as = like | have got = have
no longer = not | instead of = not | rather than = not | other than = except | apart from = except
at least = atleast | at most = atmost | more than = over | less than = under | fewer than = under
greater than = over | up to = atmost | have to = must | has to = must | had to = must
need to = must | is allowed to = can | are allowed to = can | am allowed to = can
be allowed to = can | is able to = can | are able to = can | am able to = can | be able to = can
is it possible to = can i | is it ok to = can i | is it okay to = can i | is it alright to = can i
use to = usedto | used to be = usedto be | how come = why | what time = when | what year = when
what month = when | what date = when | what day = when | e mail = email | wi fi = wifi
credit card = creditcard | debit card = debitcard | gift card = giftcard | gift voucher = giftcard
out of date = expired | in order to = to | so that = to | due to = because | a lot of = many
lots of = many | a few = few | covid 19 = covid | coronavirus disease 2019 = covid
turn on = enable | switch on = enable | turn off = disable | switch off = disable
pick up = collect | fill in = complete | fill out = complete | hand in = submit | look for = find
call off = cancel | put off = postpone | run out = expire | running out = expire
send back = return | take back = return | give back = return | pay back = repay
get back = recover | shut down = close | go up = increase | gone up = increase
go down = decrease | gone down = decrease | last name = surname | first name = forename
due date = deadline | estate agent = realtor | tax return = taxreturn | carry on = continue
come back = return | get in touch with = contact | get in touch = contact | get hold of = contact
get through to = contact | speak to = contact | talk to = contact | how old = age | what age = age
is there any way to = how do i | is there a way to = how do i | what is the way to = how do i
what is the best way to = how do i | how can i go about = how do i | how do i go about = how do i
what are the steps to = how do i | how would one = how do i | end up = | swap over = switch
move over = move | sort out = fix | look up = find | give up = quit | top up = topup
take out = get | is it allowed to = can | is it permitted to = can | are you allowed to = can you
am i allowed to = can i | is it safe for me to = is it safe to | what sort of = what
what kind of = what | what type of = what | how can i = how do i | how could i = how do i
how should i = how do i | how may i = how do i | how can you = how do you | how can we = how do i
how do we = how do i | how can one = how do i | how does one = how do i | how to = how do i
how would i = how do i | how might i = how do i | how would you = how do you
"""
"""Several words read as others, or as nothing; the longest counts."""
