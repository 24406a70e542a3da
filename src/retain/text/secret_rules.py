r"""What a secret looks like, as data for `retain.text.secrets`.

A rule is a kind, a check that tells the secret from its look-alikes, words of which one must occur,
and a pattern. A pattern's last group that took part is what is replaced. The kind "-" marks what
looks like a secret and is harmless. Rules are tried in order, and what one took no other takes.

Every pattern is linear: what repeats without a bound is one character class with nothing required
after it, or is possessive. Groups are never repeated possessively, because early releases of
Python 3.11 lose their place when the last repetition fails half way.
"""

from __future__ import annotations

# Look-alikes

PLACEHOLDERS = (
    "changeme", "change-me", "change_me", "example", "placeholder", "your", "dummy", "redacted",
    "replace", "insert", "xxxx", "****", "...", "…", "todo", "<",
)  # fmt: skip
TEMPLATE = (
    r"[$%#@&!]?[{(\[]"  # ${VAR} {{var}} %(var)s $(command) [placeholder]
    r"|[$%][A-Za-z_]\w{0,64}%?$"  # $VAR %VAR% %s
    r"|:[A-Za-z_]\w{0,64}$"  # :bind
    r"|[A-Za-z_]\w{0,64}+(?:(?:\.|::|\?\.)\w{1,64}+){0,8}[(\[]"  # os.environ[...] get_token(...)
    r"|[A-Z][A-Z0-9]{0,32}+(?:_[A-Z0-9]{1,32}+){1,12}$"  # NAME_OF_A_VARIABLE
    r"|(?:process\.env|env|secrets|vars|config|settings|self|this)[.:]"
    r"|(?:op|vault|https?|file|arn|ref\+\w{1,20}):"
    r"|(?:\.{0,2}|~)/[\w.@-]{1,64}+/[\w./@-]{0,256}+$"  # a file that holds it
    r"|\d{4}-\d\d-\d\d"
)
ALGORITHMS = frozenset(
    "argon2 argon2i argon2id base64 base64url bcrypt2 ed25519 es256 hs256 hs512 md5 oauth2 pbkdf2"
    " rs256 secp256k1 sha1 sha256 sha512 totp2 utf8mb4".split()
)
SETTINGS = frozenset(
    "authenticated bearer default disabled enabled encrypted hashed hidden missing optional prompt"
    " postgres protected required secret string unchanged undefined unknown".split()
)
# No word of a seed phrase is one of these, and hardly one of a passphrase.
FUNCTION_WORDS = frozenset(
    "the and for with from are was were has have had its not your our their into which used been"
    " a an of to in is on or by at as it be".split()
)

# Labels: words that announce a secret before a separator, as a key, or above a column

_KEYS = (
    "api access secret private auth encryption signing master account storage service admin app"
    " license shared"
)
LABELS = {
    "password": ("password", "passwd", "passphrase", "_pass", "-pass", "pwd", "passwort",
                 "kennwort", "mot de passe", "contraseña", "senha", "пароль", "密码", "密碼",
                 "パスワード", "비밀번호"),
    "secret": ("secret", "credential"),
    "token": ("token", "_auth"),
    "api-key": tuple(f"{owner}{joint}key" for owner in _KEYS.split() for joint in ("", *"_- ")),
}  # fmt: skip

# Parts of patterns, which stand in the tables below as «name»

_PLACE = r"(?:[ \t](?:for|of|to|on|für)(?:[ \t][^\s:=|\"'`]{1,24}+){1,5})?"
_QUOTED = (
    r"\\\"([^\"\\\n]{1,512})\\\"|\"((?:[^\"\\\n]|\\[^\n]){1,512})\""
    r"|'([^'\n]{1,512})'|`([^`\n]{1,512})`"
)
# A bare value ends before the next field, a sentence's punctuation, and Chinese or Japanese.
_BARE = r"[^\s\"'`\\<|\u3000-\U0010ffff]"
_VALUE = (
    rf"(?:{_QUOTED}|((?:(?![&;,][\w.-]{{1,40}}[=:]){_BARE}){{0,511}}(?![.,;:*)\]}}>&]){_BARE}))"
)
_KEY_GAP = r"(?:\\{1,4}[rn]|[\s>|#]){0,40}"
_SEED_WORD = rf"(?:\d{{1,2}}[.):][ \t]?)?(?!(?:{'|'.join(sorted(FUNCTION_WORDS))})\b)[a-z]{{3,8}}"
PARTS = {
    # A token may follow an escape such as \n or \u4e2d when JSON is scanned as text.
    "start": r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\\u[0-9a-f]{4}))",
    "flag": r"(?<![\w-])",
    "value": _VALUE,
    "quoted": f"(?:{_QUOTED})",
    # No backslash, and no quote of another kind: the whole text may be JSON.
    "argument": r"""(?:"([^"\\\n]{1,256})"|'([^'"\\\n]{1,256})'|([^\s"'`\\]{1,256}))""",
    "assign": r"""["']?[ \t]{0,4}[:=]{1,2}>?[ \t]{0,4}["']?""",
    "place": _PLACE,
    "seed": _SEED_WORD,
    "next seed": rf"(?:[ \t,]{{1,4}}|[ \t,]{{0,2}}\r?\n[ \t]{{0,4}}){_SEED_WORD}",
    # Wrapped base64 goes on while whole lines are base64; a line of prose or a token ends it.
    "wrapped": r"(?:(?:\\r)?(?:\\n|\r?\n)[ \t>]*+[A-Za-z0-9+/]{20,}+={0,2}(?=[\s\\\"'`)]|\Z))*",
    "key begin": r"(?:-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----)",
    "key end": r"----[- ]END [A-Z0-9 ]{0,40}KEY(?: BLOCK)?[- ]----",
    "key gap": _KEY_GAP,
    "key line": rf"{_KEY_GAP}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): "
    r"[^\n\\\"]{0,200}|=?[A-Za-z0-9+/]{24,}+={0,2})",
    # The last line is short; without an END line only the end of the text proves it belongs.
    "key last": rf"{_KEY_GAP}=?[A-Za-z0-9+/]{{1,23}}+={{0,2}}(?={_KEY_GAP}(?:----|[\"'`]|\Z))",
}
LABELLED = (  # what follows a label: a separator, then the value, in which labels may stand
    rf"s?\d{{0,2}}[\])\"'`*_\\]{{0,4}}{_PLACE}[ \t]{{0,16}}"
    r"(?::[ \t]{0,4}(?:str|[Ss]tring|&str)[ \t]{0,4}=|:=|=>|={1,3}|[:\uff1a\uff1d]"
    # A table cell, an XML element, a sentence.
    r"|(?<=[ \t])\|(?=[ \t])|>(?=[^\s<>]{1,256}</)|(?:is|was|ist)(?=[ \t]))"
    rf"[ \t*]{{0,16}}(?={_VALUE})"
)

# The rules: kind, check, words, pattern. An indented line continues a pattern.

RULES = r"""
private-key token private␣key «key begin»(?:[ \t]{0,8}\r?\n(?:[^-]|-(?!---))*«key end»
    |\\{1,2}[rn](?:[^-\"']|-(?!---))*«key end»
    |(?:«key line»)+(?:«key last»)?(?:«key gap»«key end»)?)
- token base64, ;base64,[A-Za-z0-9+/]++={0,2}«wrapped»
- token iVBORw0KGgo|/9j/|R0lGOD|UklGR (?<![A-Za-z0-9+/=])«words»[A-Za-z0-9+/]{16,}+={0,2}«wrapped»
- token sha256-|sha384-|sha512- «words»[A-Za-z0-9+/]{40,}+={0,2}
- token SHA256:|sha256:|h1: «words»[A-Za-z0-9+/]{40,}+={0,2}
- token ssh-|ecdsa- (?:ssh-[a-z0-9]{3,8}|ecdsa-sha2-[a-z0-9]{3,10})(?:@openssh\.com)?[ \t]{1,4}
    AAAA[A-Za-z0-9+/]++={0,3}
- token -----begin␣ -----BEGIN (?:[A-Z0-9 ]{0,20} )?(?:CERTIFICATE(?: REQUEST)?
    |PUBLIC KEY(?: BLOCK)?|PGP SIGNATURE|PGP MESSAGE|X509 CRL)-----
    (?:(?:\\{1,2}[rn]|[\s>])*(?:[A-Z][A-Za-z]{2,12}: [^\n\\\"]{0,200}|[A-Za-z0-9+/]{24,}+={0,2}))*
age-secret-key token AGE-SECRET-KEY-1 «words»[A-Z0-9]{40,}
anthropic-key token sk-ant- «words»[A-Za-z0-9_-]{16,}
openrouter-key token sk-or- «words»(?:v1-)?[A-Za-z0-9]{32,}
openai-key token sk-proj-|sk-svcacct-|sk-admin- «words»[A-Za-z0-9_-]{20,}
github-token token ghp_|gho_|ghu_|ghs_|ghr_ «words»[A-Za-z0-9]{20,}
github-token token github_pat_ «words»[A-Za-z0-9_]{22,}
gitlab-token token glpat-|gldt-|glrt-|glptt-|glcbt-|glsoat-|glft-|glagent-|gloas-
     «words»[A-Za-z0-9_-]{20,}+(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?
slack-webhook token hooks.slack.com/services/|hooks.slack.com/workflows/|hooks.slack.com/triggers/
     «words»([A-Za-z0-9_/+-]{20,})
slack-token token xoxa-|xoxb-|xoxc-|xoxd-|xoxe-|xoxe.xoxb-|xoxe.xoxp-|xoxo-|xoxp-|xoxr-|xoxs-|xapp-
     «words»[A-Za-z0-9%-]{15,}
stripe-key token sk_live_|rk_live_|sk_test_|rk_test_|whsec_ «words»[A-Za-z0-9]{16,}
google-oauth-secret token GOCSPX- «words»[A-Za-z0-9_-]{20,}
google-oauth-token token ya29. «words»[A-Za-z0-9_-]{20,}
npm-token token npm_ «words»[A-Za-z0-9]{30,}
pypi-token token pypi-AgE «words»[A-Za-z0-9_-]{30,}
digitalocean-token token dop_v1_|doo_v1_|dor_v1_ «words»[0-9a-f]{40,}
heroku-key token HRKU- «words»[A-Za-z0-9_-]{30,}
azure-storage-key token AccountKey=|SharedAccessKey= «words»([A-Za-z0-9+/]{40,}={0,2})
azure-sas token ?sig=|&sig=|;sig= «words»([A-Za-z0-9%+/=]{40,})
linear-key token lin_api_|lin_oauth_ «words»[A-Za-z0-9]{30,}
shopify-token token shpat_|shpca_|shppa_|shpss_ «words»[0-9a-fA-F]{32}
square-token token sq0atp-|sq0csp- «words»[A-Za-z0-9_-]{22,}
atlassian-token token ATATT3|ATCTT3|ATSTT3 «words»[A-Za-z0-9_=-]{40,}
perplexity-key token pplx- «words»[A-Za-z0-9]{40,}
docker-token token dckr_pat_|dckr_oat_ «words»[A-Za-z0-9_-]{20,}
grafana-token token glsa_|glc_eyJ «words»[A-Za-z0-9_+/=]{30,}
sentry-token token sntrys_|sntryu_ «words»[A-Za-z0-9_+/=]{40,}
supabase-token token sbp_|sb_secret_ «words»[A-Za-z0-9_-]{30,}
figma-token token figd_ «words»[A-Za-z0-9_-]{30,}
postman-key token PMAK- «words»[0-9a-f]{24}-[0-9a-f]{34}
newrelic-key token NRAK- «words»[A-Z0-9]{27}
brevo-key token xkeysib-|xsmtpsib- «words»[0-9a-f]{60,}-[A-Za-z0-9]{16}
tailscale-key token tskey- «words»[a-z]{2,10}-[A-Za-z0-9-]{16,}
planetscale-token token pscale_tkn_|pscale_pw_|pscale_oauth_ «words»[A-Za-z0-9_.-]{30,}
rubygems-key token rubygems_ «words»[0-9a-f]{48}
google-api-key token AIza «start»«words»[A-Za-z0-9_-]{30,}
google-oauth-token token 1//0 «start»«words»[A-Za-z0-9_-]{30,}
huggingface-token token hf_ «start»«words»[A-Za-z0-9]{30,}
sendgrid-key token SG. «start»«words»[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,}
twilio-key token SK «start»«words»[0-9a-f]{32}(?:SK[0-9a-f]{32})*
mailgun-key token key- «start»«words»[0-9a-f]{32}
databricks-token token dapi «start»«words»[0-9a-f]{32}(?:-\d)?
notion-token token ntn_|secret_ «start»«words»[A-Za-z0-9]{40,}
vault-token token hvs.|hvb.|hvr. «start»«words»[A-Za-z0-9_-]{20,}
doppler-token token dp.pt.|dp.st.|dp.ct.|dp.sa.|dp.scim.|dp.audit.
     «start»«words»(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}
groq-key token gsk_ «start»«words»[A-Za-z0-9]{40,}
xai-key token xai- «start»«words»[A-Za-z0-9]{60,}
replicate-token token r8_ «start»«words»[A-Za-z0-9]{30,}
netlify-token token nfp_ «start»«words»[A-Za-z0-9]{36,}
jwt jwt eyJ «start»eyJ[A-Za-z0-9_-]*+(?:\.{1,2}[A-Za-z0-9_-]++){0,4}
openai-key mixed sk- «start»sk-[A-Za-z0-9_-]{20,}
aws-access-key-id token AKIA|ASIA|ABIA|ACCA «start»(?:«words»[A-Z0-9]{16})+
twilio-auth-token token AC «start»AC[0-9a-f]{32}[^0-9A-Za-z][^\n]{0,60}?(?<![0-9A-Za-z])
    ([0-9a-f]{32})(?![0-9A-Za-z])
telegram-bot-token token :A (?<![0-9])[0-9]{6,12}:A[A-Za-z0-9_-]{32,}
discord-webhook token /api/webhooks/|/api/v
     discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,24}/([A-Za-z0-9_-]{20,})
discord-bot-token token MD|MT|Mj|Mz|ND|NT|Nj|Nz|OD|OT
     «start»[MNO][DTjz][A-Za-z0-9_-]{21,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
azure-client-secret token Q~ [A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}
square-token token EAAA «start»(?<![+/_-])EAAA[A-Za-z0-9_-]{56,}
terraform-token token .atlasv1. «start»[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}
aws-secret-key token secret_access_key|secretaccesskey|aws_secret|secret␣access
     (?i:aws_secret|secret[_ ]?access)[A-Za-z_ ]{0,16}«assign»([A-Za-z0-9+/]{40,}={0,2})
mailgun-key token mailgun (?<![0-9a-f])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])
heroku-key token heroku (?i:heroku[a-z_ .-]{0,24}(?:key|token|secret|auth))«assign»
    ([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})
url-password literal @ ://[^\s:@/?#\[\]\"'`<>\\]{0,128}:(?!\d{1,5}/)
    ((?:(?!://)[^\s\"'`<>\\\[\]{}]){1,256})@(?=[^\s@])
url-password mixed @ ://([A-Za-z0-9_.~-]{20,256})@
authorization credential authorization (?i:authorization)[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?
    (?i:bearer|basic|token|apikey|digest|negotiate)[ \t]{1,4}([A-Za-z0-9+/._~=-]{8,})
authorization mixed bearer␣|basic␣
     «start»(?i:bearer|basic)[ \t]{1,4}([A-Za-z0-9+/._~=-]{16,})
password set pass|pwd|pw (?:PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|(?<![A-Za-z0-9])PW
    |--password|--passwd|--passphrase)\d{0,2}[ \t]?=[ \t]?«value»
password set pass|pwd (?i:password|passwd|passphrase|_pass|pwd)\d?[ \t]?=[ \t]?«quoted»
password set pass|pwd (?i:password|passwd|passphrase|_pass|pwd)(?:=|[\"']:[ \t]{0,4}[\"'])
    ([A-Za-z0-9]{2,16}(?:-[A-Za-z0-9]{2,16}){1,11})(?=[\s\"'&;,)}]|\Z)
password passphrase pass (?i:password|passwd|passphrase|_pass)\d?[ \t]?=[ \t]?
    [\"']([a-z]{2,16}(?:[ -][a-z]{2,16}){1,11})[\"']
password passphrase pass (?i:password|passwd|passphrase)[ \t](?:for|of|to|on)
    (?:[ \t][^\s:=|\"'`]{1,24}+){1,5}[ \t]{0,4}[:=][ \t*]{0,4}[\"'`]?
    ([a-z0-9]{2,16}(?:-[a-z0-9]{2,16}){1,11})(?=[\"'`.]?[ \t]{0,4}(?:[\n\r]|\Z))
password passphrase pass (?i:password|passphrase)«place»[ \t]{1,4}(?:is|was)[ \t]{1,4}[\"'`]
    ([a-z]{2,16}(?:[ -][a-z]{2,16}){1,11})[\"'`]
secret password secret|_auth (?:SECRET(?:_KEY)?|_AUTH|(?i:secret[._-]key))[ \t]?=[ \t]?«value»
password token pin (?<![\w-])PIN[ \t]?[:=][ \t]?(\d{4,8})(?![\w.-])
password password login:|user:|username:
     (?i:login|user(?:name)?):[ \t]?[^\s/]{1,64}[ \t]/[ \t]«value»
password password pw|pass= (?<![A-Za-z0-9])(?:(?i:pw)[ \t]?[:=]|pass=)[ \t]{0,4}«value»
password password --
     «flag»--[a-z-]{0,24}?(?:password|passwd|passphrase|pass|pwd)[ \t]{1,4}«argument»
token random -- «flag»--[a-z-]{0,24}?(?:token|secret|key)[ \t]{1,4}«argument»
password argument curl|wget «flag»(?:-u|--user)[ \t=]{0,4}(?:\"[^\s:\"$]{1,64}:([^\"\\\n]{1,256})\"
    |'[^\s:'$]{1,64}:([^'\"\\\n]{1,256})'|[^\s:\"'$]{1,64}:([^\s\"'`\\]{1,256}))
password argument mysql␣|mysqldump␣|mysqladmin␣|mysqlimport␣|mariadb␣ «flag»-p«argument»
password argument http␣|https␣|xh␣
     «flag»(?:-a|--auth)[ \t=]{1,4}[^\s:\"'$]{1,64}:([^\s\"'`\\]{1,256})
password argument openssl «flag»(?:-k|-passin|-passout|-pass)[ \t]{1,4}(?:pass:)?«argument»
password argument ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami «flag»-w[ \t]{1,4}«argument»
password argument sshpass|docker␣login|podman␣login «flag»-p[ \t]{0,4}«argument»
password argument redis-cli «flag»-a[ \t]{1,4}«argument»
password argument login (?:machine\s{1,8}\S{1,128}|(?m:^default))\s{1,8}login\s{1,8}\S{1,128}
    \s{1,8}password\s{1,8}([^\s\"'\\]{1,256})
password argument :5432:|:5433:|:6432:|:*: (?<![^\s\"'`(])[^\s:\"'`(]{1,128}:(?:\d{4,5}|\*)
    :[^\s:]{1,64}:[^\s:]{1,64}:([^\s:\"'\\]{1,256})
password argument net␣use \\\\[^\s\"']{3,128}(?:[ \t]{1,4}/user:\S{1,64})?[ \t]{1,4}(?![/*])
    «argument»
password passphrase passphrase (?i:passphrase)[\"'`*_]{0,4}«place»[ \t]{0,4}[:=][ \t*]{0,4}[\"'`]?
    ([a-z]{2,16}(?:[ -][a-z]{2,16}){2,11})(?![\w ,])
seed-phrase token seed|recovery|mnemonic|wallet
     (?i:seed|recovery|mnemonic|wallet)
    (?i:[ _-](?:phrase|words|seed))?[\"'`*_]{0,4}«place»[ \t]{0,4}
    (?:[:=]|(?:is|are):?)\s{0,4}[*\"'`]{0,3}(«seed»(?:«next seed»){11}(?:(?:«next seed»){3}){0,4})
    (?=[ \t]{0,4}(?:[\n\r\"'`*.;\\]|\Z))
card-number card 2|3|4|5|6 (?<![\w.-])((?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|6[25]\d\d|35\d\d)
    (?:[ -]\d{4}[ -]\d{4}[ -]\d{4}|\d{12})|3[47]\d\d(?:[ -]\d{6}[ -]\d{5}|\d{11}))(?![\w-]|\.\d)
- token public|pubkey|fingerprint|integrity|checksum|digest|hash|etag|sha
     (?i:«words»)[^\n]{0,23}?(?<![A-Za-z0-9+/_-])([A-Za-z0-9+/_-]{28,}+={0,2})
- token :// ://[^\s\"'`<>]*+
high-entropy high_entropy * (?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{28,}+={0,2}
"""
