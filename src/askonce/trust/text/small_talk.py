"""Word lists for conversations: what is chatter, and what may change every later answer."""

from __future__ import annotations

import re

from askonce.trust.text.lexicon import listed

COURTESIES = re.compile(
    r"""\b(?:
    (?:hope|hoping)\ you(?:'re|\ are)?\ (?:all\ )?(?:having|had|doing|well|ok|keeping)
        (?:\ an?)?(?:\ (?:good|great|nice|lovely|well|fine|ok))*
        (?:\ (?:day|morning|afternoon|evening|week|weekend|one|today))?
    | (?:have|enjoy)\ (?:an?|your|the\ rest\ of\ your)\ (?:(?:good|great|nice|lovely)\ )?
        (?:day|morning|afternoon|evening|week|weekend|one)
    | good\ (?:morning|afternoon|evening|day)
    | how\ are\ (?:you|things)(?:\ doing)?(?:\ today)?
    | (?:i\ am|i'm|all|doing|very)\ (?:good|fine|well)\ thanks
    | no\ (?:worries|problem|problems|rush|bother)(?:\ at\ all)? | not\ at\ all | don't\ worry
    | (?:thanks|thank\ you|cheers)(?:\ (?:so|very)\ much|\ a\ lot|\ again)*
        (?:\ for\ (?:(?:your|the|all)\ )*(?:help|getting\ in\ touch|reaching\ out|contacting\ us
        |asking|waiting|your\ patience|patience|info|that|letting\ (?:me|us)\ know|checking))?
    | sorry\ (?:to\ (?:bother|trouble)\ you|for\ (?:all\ )?(?:the|my|so\ many)\ questions
        |to\ hear\ (?:that|it|this)|about\ that|for\ the\ (?:wait|delay|trouble))
    | nice\ to\ (?:hear\ from|meet)\ you | you(?:'re|\ are)\ (?:very\ |most\ )?welcome
    | (?:i(?:'m|\ am|'d\ be)\ )?(?:always\ )?(?:happy|glad)\ to\ help
    | that(?:'s|\ is)\ what\ i(?:'m|\ am)\ here\ for | of\ course | fair\ enough
    | (?:that(?:'s|\ is)|what\ an?)\ (?:such\ )?(?:an?\ )?(?:shame|pity|lovely|great|nice|amazing)
    | ^\W*i\ am\W*$ | oh\ no | good\ question | i\ see
    | makes\ sense
    | lucky\ you | (?:many\ )?congrat(?:ulation)?s | (?:one|just\ a)\ (?:moment|second|sec|minute)
    | hang\ on | hold\ on | bear\ with\ me | me\ again | (?:are\ )?you\ (?:still\ )?there
    | (?:just\ )?(?:a\ |one\ )?(?:more\ )?(?:quick|random)\ question | one\ more\ thing
    | (?:you\ )?(?:made|make)\ my\ day | take\ care | no\ need\ to\ apologise
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Whole phrases that ask and tell nothing."""

SERVICE = re.compile(
    r"(?:(?:how|what)(?: else)? can i (?:help|do)(?: you)?(?: for you)?"
    r"(?: with(?: (?:the|your|that) \w+)?)?(?: today)?"
    r"|(?:is there )?anything(?: else(?: i can (?:help with|do))?| i can (?:help with|do))"
    r"|anything (?:else )?you(?: would|'d) like to know"
    r"|what (?:would you|do you want|can i help you) (?:like )?(?:to )?(?:know|check|with)"
    r"|sounds (?:good|great|fun|lovely|brilliant|exciting|like fun)|let me (?:check|look|see)"
    r"|(?:of course,? )?go ahead|great choice|thanks for confirming|that(?: makes|'ll make) it easy"
    r"|take your time)(?=\W*$)",
    re.IGNORECASE,
)
"""What only those ask who answer."""

WEATHER = re.compile(
    r"\W*(?:and )?(?:(?:it'?s|it is) )?(?:actually |so |really |finally )*(?:sunny|raining)"
    r"(?: (?:here|outside|again|today|for once))*\W*|\W*(?:and )?enjoy the (?:sun|sunshine)\W*",
    re.IGNORECASE,
)
"""Small talk, unless it is what the question is about."""

OUTDOORS = listed(
    """
    weather wear outside outdoor outdoors rain umbrella walk hike bike cycle run drive
    driving road roof garden plant plants lawn water paint dry wash laundry picnic barbecue bbq
    beach ski camp camping tent match game today now tonight trip tour sail fly park skin sun sunny
    solar
    """
)
"""A question or a talk with one of these may be about the weather."""

CLOTHES = listed("coat jacket jumper shorts hat boots sunglasses sunscreen")
"""Such a question may be as well."""

CHATTER = listed(
    """
    how hi hello hey hiya morning thanks thank cheers ta thx sorry apologies welcome bye goodbye
    lol haha ha hah hehe ah oh ooh aw aww hmm wow ugh argh boo yay phew omg lovely brilliant
    brill cool fab amazing awesome fantastic wonderful gutted exciting frustrating annoying
    typical understandable anyway understood helpful useful so really very that is it and you
    what a an the such to be for there this all just totally hear know quite absolutely indeed
    ok okay great good nice perfect right fine
    """
)
"""A clause of nothing but these says nothing."""

GLUE = listed(
    """
    how so really very that is it you and what a an the such to be for there this all just
    totally hear know quite indeed
    """
)
"""Those of them that make no chatter alone."""

NEUTRAL = listed(
    """
    hi hello hey hiya thanks thank you cheers ta thx sorry apologies ah oh haha ha lol ugh
    anyway so much very again a lot for that i am
    """
)
"""Chatter that answers no offer."""

DECIDING = listed(
    """
    add added adds adding change changed changing cancel cancelled move moved moving make made
    book booked booking upgrade upgraded remove removed switch switched swap swapped replace
    replaced include included including exclude drop dropped pick choose chose chosen decide
    decided confirm confirmed take taken took want wants wanted need needs needed prefer rather
    instead actually except unless if only until till extra another more less fewer different
    same but however although though because since other others either neither without not no
    never none nothing nobody cannot will would should could must shall let use used using send
    sent deliver keep kept put set apply applied update updated done order ordered buy bought
    pay paid return returned refund refunded hold reserve reserved get got give given like love
    loved hate hated favourite enjoy wait correct correction mean meant wrong mistake again back
    yes yeah yep yup nope sure agreed deal please first second third last next former latter
    half twice double couple dozen pair cheaper smaller bigger larger lighter faster earlier
    later longer shorter closer newer older colour color size version alternative available
    discount voucher insurance warranty today tomorrow yesterday tonight week weeks weekend
    month months year years day days hour hours minute minutes monday tuesday wednesday thursday
    friday saturday sunday noon midnight january february march april june july august september
    october november december morning afternoon evening night summer winter spring autumn one
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
    thousand million zero
    """
)
"""A clause with one of these may change what is asked for, or how much of it, or when."""

STANDING = listed(
    """
    answer answers answering reply replies respond responses write speak talk say translate
    format formatted json xml csv yaml markdown html latex bullet bullets list table column
    heading paragraph sentence sentences words brief briefly short shorter concise detailed
    simple simply language english french german spanish italian portuguese dutch polish russian
    chinese mandarin japanese korean arabic hindi turkish swedish norwegian danish finnish greek
    czech welsh latin deutsch francais espanol tone formal informal formally politely pirate
    rhyme act pretend imagine roleplay role persona character assume assuming suppose treat
    always never every each must only ignore disregard forget remember override instruction
    instructions prompt system rule rules call name named nickname metric imperial celsius
    fahrenheit kilometres kilometers miles km kg lb lbs pounds dollars euros yen usd eur gbp
    currency unit units version python java javascript typescript rust golang ruby php kotlin
    swift linux windows macos mac android ios iphone ubuntu budget prefer preference preferred
    style tldr summary unless whenever henceforth onwards avoid stop refuse don't do-not
    hypothetical fictional game mode expert secret password
    """
)
"""A clause with one of these may hold for every later answer."""

PROFILE = listed(
    """
    allergic allergy allergies intolerant coeliac celiac vegan vegetarian halal kosher gluten
    nut nuts peanut peanuts dairy lactose shellfish sesame pregnant pregnancy breastfeeding
    diabetic diabetes asthma asthmatic epilepsy disabled disability wheelchair deaf blind
    autistic kidney liver heart medication medicine tablets mg dose condition diagnosed surgery
    symptom symptoms age aged old child children kid kids baby infant toddler teenager son
    daughter student students senior pensioner retired beginner novice expert member membership
    gold silver platinum bronze tier premium military veteran resident citizen visa passport
    live lives living based located abroad overseas international domestic country nationality
    married divorced single widow employed unemployed freelance self-employed income salary wage
    tenant landlord owner lease mortgage vat tax minor adult adults keto religion religious
    gender male female weight height bmi
    """
)
"""A clause with one of these tells of somebody what later answers may depend on."""

OPEN = listed(
    """
    should recommend recommended suggest suggestion suggestions advice advise best better ideas
    idea think opinion favourite prefer write draft compose tell explain describe plan next
    choose pick compare between summarise summarize everything recap review list code example
    examples why worth fix solve improve rewrite translate
    """
)
"""A question with one of these is answered by all that went before."""

RECALLING = listed(
    """
    said say says conversation chat discussion earlier previously told mentioned asked message
    messages above summarise summarize summary recap repeat again exactly verbatim transcript
    """
)
"""A question with one of these may be about the wording of what was said."""
SMALL_TALK = re.compile(
    r"\s*(?:have you ever|are you an? (?:bot|robot|human|machine|real person)|are you real"
    r"|do you (?:sleep|dream|get tired|ever sleep))\b",
    re.IGNORECASE,
)
"""Begins a question that is about the one who answers, and never about the matter."""
OFFERING = listed(
    """
    can could would will shall may might want like happy offer offering option options available
    if either choose prefer recommend suggest suggestion or arrange
    """
)
"""In an assistant's turn: there may be something to accept."""
ABOUT_ITSELF = CHATTER | listed(
    "i am yes no not never ever have been an ai assistant virtual bot robot human machine program"
)
"""What answers small talk consists of."""
REPLYING = listed(
    "yes yeah yep yup no nope nah ok okay sure please both neither either nothing none fine go do"
)
"""Opens what a question before it makes sense of."""
