"""Words that mean little, short forms and irregular forms: English tables."""

from __future__ import annotations


def listed(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


FILLERS = listed(
    """
    please pls plz kindly hello hi hey dear thanks thank thx cheers um uh er erm hmm oh ok okay yeah
    so just really actually basically simply exactly currently presently now also well too very
    quite a an the ever even honestly quickly easily anyone anybody somebody possibly perhaps
    maybe guys folks sir madam mate asap urgently anyway alright hiya greetings regards
    literally totally obviously essentially apparently sorry lol ah uhh umm ehm mm eh yes yep yup
    cool great awesome kinda sorta urgent ta anyhow fully properly correctly
    """
)
"""Dropped before anything is compared."""

SOFT = listed(
    """
    be do have can will would shall get go make take need want use find know come put give
    let like try tell say see look show help ask think there here it this that these those
    what which who when where why how whose whom i you we of in on at for to by with about
    as if and or but than then able possible way process procedure method step option thing
    kind type sort someone something value detail information info own some any such good
    best other else up out off into from my your our their his her its he she they me us him
    them one self via per through while because whether due let's etc am pm happen work set
    run keep new main overall general certain specific particular various different typical
    usual normal common lot many much long more person people already still yet again back
    around near only all every each both either must should may might not no never without
    nor over under before after during usually normally typically generally approximately
    roughly probably definitely certainly directly successfully immediately instantly soon
    time allowed safely explain describe define meaning mean
    """
)
"""Say little alone: one of them too many is no evidence. Guards of their own look at some."""

CASED = listed(
    """
    may will march august polish turkey china japan chad guinea jersey nice reading bath cork
    go rust swift shell apple target gap chase discover square stripe slack teams zoom meet drive
    outlook edge safari mercury oracle express visa mint jobs friends mark bill rose frank jack
    nick art grace hope faith joy dawn sandy rich miles rob sue drew gene dean earl grant cook
    baker smith young brown black white green king price stone bush
    it us who aids act sat cat ram pet ice
    """
)
"""Words that name something else with a capital."""

CONTRACTIONS = {
    "cannot": "can not",
    "cant": "can not",
    "wont": "will not",
    "dont": "do not",
    "doesnt": "do not",
    "didnt": "did not",
    "isnt": "is not",
    "arent": "are not",
    "wasnt": "was not",
    "werent": "were not",
    "hasnt": "has not",
    "havent": "have not",
    "hadnt": "had not",
    "couldnt": "could not",
    "shouldnt": "should not",
    "wouldnt": "would not",
    "mustnt": "must not",
    "im": "i am",
    "ive": "i have",
    "youre": "you are",
    "theyre": "they are",
    "whats": "what is",
    "wheres": "where is",
    "whos": "who is",
    "hows": "how is",
    "whens": "when is",
    "whys": "why is",
    "thats": "that is",
    "theres": "there is",
    "gonna": "going to",
    "wanna": "want to",
    "gotta": "got to",
    "unable": "not able",
    "impossible": "not possible",
    "prof.": "professor",
    "noone": "nobody",
}

IRREGULAR = {
    form: base
    for line in """
    be am is are was were been being
    do does did done doing
    have has had having
    can could
    will would
    may might
    go goes went gone
    get got gotten
    make made
    take took taken
    give gave given
    come came
    see saw seen
    know knew known
    think thought
    say said
    tell told
    find found
    buy bought
    sell sold
    leave left
    lose lost
    win won
    beat beaten
    pay paid
    send sent
    spend spent
    lend lent
    borrow borrowed
    keep kept
    hold held
    teach taught
    catch caught
    bring brought
    fight fought
    seek sought
    eat ate eaten
    drink drank drunk
    drive drove driven
    write wrote written
    ride rode ridden
    rise rose risen
    fall fell fallen
    feel felt
    meet met
    read reads
    lead led
    feed fed
    run ran
    begin began begun
    swim swam swum
    sing sang sung
    break broke broken
    speak spoke spoken
    steal stole stolen
    choose chose chosen
    freeze froze frozen
    forget forgot forgotten
    hide hid hidden
    bite bit bitten
    fly flew flown
    grow grew grown
    throw threw thrown
    draw drew drawn
    show shown
    build built
    hear heard
    understand understood
    stand stood
    sleep slept
    shoot shot
    become became
    man men
    woman women
    child children
    person persons
    foot feet
    tooth teeth
    mouse mice
    life lives
    wife wives
    knife knives
    calf calves
    wolf wolves
    leaf leaves-of
    half halves
    die died dies dying
    lie lying lied
    tie tying tied
    use used using uses
    """.splitlines()
    if line.strip()
    for base, *forms in [line.split()]
    for form in forms
}
