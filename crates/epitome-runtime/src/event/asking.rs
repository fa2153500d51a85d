//! Whether an agent asks for something it was told before: "What was the budget again?"
//!
//! A text is cut into clauses and clauses into words; a clause asks when a phrase of the table is in it. Scripts without
//! spaces are cut into characters. In a phrase, `a|b` stands for either word, `*` for one to eight words, `~` for none to
//! two, `^` and `$` for the beginning and the end of the clause, and `?` says that the clause must be part of a question.
//!
//! The table does not try to understand. A phrase is in it when ordinary work does not produce it.

use std::sync::LazyLock;

/// The most bytes that are looked at, from the end: questions come last.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// How many words `*` and `~` stand for.
const GAP: (usize, usize) = (1, 8);
const FILLER: (usize, usize) = (0, 2);

/// The phrases of each language.
const PHRASES: [(&str, &[&str]); 15] = [
    (
        "en",
        &[
            "what|who|where|which was|were|is * again $ ?",
            "what s * again $ ?",
            "which * was|were it|that|those again $ ?",
            "which * was|were|did * again $ ?",
            "what did you|we say|tell|decide|agree|mention * earlier|before ?",
            "what did you say * was ?",
            "what had you|we asked|decided|agreed ?",
            "could|can|would you ~ remind me ?",
            "^ please remind me",
            "^ remind me what|which|who|where|how|of",
            "could|can|would you ~ repeat what ?",
            "could|can|would you ~ repeat * requirements|constraints|instructions|details|question ?",
            "could|can|would you ~ tell me again ?",
            "could|can|would you ~ resend|reshare ?",
            "could|can|would you ~ share|send|paste|provide * again $ ?",
            "i no longer have context",
            "i no longer have the * context|output|details|contents",
            "i no longer have the earlier|original|previous",
            "i no longer have the * you gave|sent|shared",
            "i no longer have access to our",
            "i no longer have access to the earlier",
            "i no longer have access to the * conversation",
            "i no longer remember|recall",
            "i don't remember|recall what you",
            "i don't remember|recall which",
            "i ve|have forgotten what|which",
            "i forgot what you",
            "i lost the context",
            "i ve|have lost the context",
            "i can't see the|our earlier",
            "i don't have the|our earlier",
        ],
    ),
    (
        "de",
        &[
            "was|wie|wer war|hieß * nochmal $ ?",
            "was|wie|wer war|hieß * noch mal $ ?",
            "was|wie|wer war|hieß nochmal ?",
            "was|wie|wer war|hieß noch mal ?",
            "welche|welcher|welches * war das nochmal ?",
            "du|sie mich ~ daran erinnern ?",
            "du|sie mich ~ an * erinnern ?",
            "du|sie mir ~ noch einmal sagen|nennen|schicken ?",
            "du|sie mir ~ nochmal sagen|nennen|schicken ?",
            "du|sie mir * noch einmal nennen|schicken ?",
            "ich weiß nicht mehr $",
            "ich weiß nicht mehr was|wie|wo|wer|welche|welcher|welches",
            "ich erinnere mich nicht mehr",
            "ich kann mich nicht mehr * erinnern",
            "mir liegt|liegen * nicht mehr vor",
        ],
    ),
    (
        "fr",
        &[
            "quel|quelle|quels|quelles était|étaient * déjà $ ?",
            "c'était quoi déjà ?",
            "tu|vous me rappeler ?",
            "tu|vous peux|pouvez me rappeler ?",
            "rappelle|rappelez moi quel|quelle|le|la|les",
            "je ne me souviens|rappelle plus",
            "je n'ai plus le contexte",
            "je n'ai plus accès à|aux * conversation|échanges",
        ],
    ),
    (
        "es",
        &[
            "cuál|qué era|eran * otra vez $ ?",
            "me puedes|puede|podrías|podría recordar ?",
            "puedes|puede|podrías|podría recordarme ?",
            "recuérdame|recuérdeme qué|cuál|cuáles",
            "ya no recuerdo",
            "no recuerdo cuál|cuáles",
            "no recuerdo qué me",
            "ya no tengo el contexto",
            "ya no tengo acceso a * conversación",
        ],
    ),
    (
        "pt",
        &[
            "qual era|foi mesmo ?",
            "qual era|foi * mesmo $ ?",
            "pode|podes|poderia me lembrar ?",
            "pode|podes|poderia lembrar me ?",
            "me lembre qual",
            "não me lembro mais",
            "já não me lembro",
            "não lembro mais",
            "não tenho mais o contexto",
            "já não tenho o contexto",
            "não tenho mais acesso à conversa",
        ],
    ),
    (
        "it",
        &[
            "qual|quale era già ?",
            "qual|quale era * già $ ?",
            "puoi|può|potresti|potrebbe ricordarmi ?",
            "mi puoi|può|potresti|potrebbe ricordare ?",
            "ricordami qual|quale|quali",
            "non ricordo più",
            "non mi ricordo più",
            "non ho più il contesto",
            "non ho più accesso alla conversazione",
        ],
    ),
    (
        "nl",
        &[
            "ook alweer ?",
            "ook al weer ?",
            "je|u me|mij ~ herinneren aan ?",
            "je|u me|mij nog eens|even vertellen ?",
            "je|u me|mij nog een keer vertellen ?",
            "ik weet niet meer wat|welke|wie|waar",
            "ik herinner me|mij niet meer",
            "ik heb de eerdere * niet meer",
        ],
    ),
    (
        "pl",
        &[
            "możesz|mógłbyś|mogłabyś mi ~ przypomnieć ?",
            "może mi pan|pani przypomnieć ?",
            "możesz ~ przypomnieć mi ?",
            "przypomnij mi ~ jaki|jaka|jakie",
            "przypomnij mi $",
            "nie pamiętam już",
            "już nie pamiętam",
            "nie mam już dostępu do * rozmowy",
        ],
    ),
    (
        "ru",
        &[
            "напомни|напомните ~ какой|какая|какое|какие",
            "^ напомни|напомните мне",
            "^ напомни|напомните $ ?",
            "можете|можешь ~ напомнить ?",
            "могли бы вы ~ напомнить ?",
            "мог|могла бы ты ~ напомнить ?",
            "я уже|больше не помню",
            "у меня больше нет доступа к * переписке",
            "у меня больше нет контекста",
        ],
    ),
    ("tr", &["hatırlatır mısın|mısınız ?", "hatırlatabilir misin|misiniz ?", "artık hatırlamıyorum"]),
    (
        "zh",
        &[
            "你|您 能 ~ 提醒我 ?",
            "能不能 ~ 提醒我 ?",
            "可以 ~ 提醒我 * 吗 ?",
            "能 ~ 告诉我一遍 ?",
            "能再说一遍 ?",
            "什么来着",
            "多少来着",
            "哪个来着",
            "我不记得 你|您",
            "我已经不记得",
            "我没有之前的上下文",
            "我没有之前的对话",
        ],
    ),
    (
        "ja",
        &[
            "もう一度教えて",
            "でしたっけ",
            "だっけ",
            "思い出させて",
            "もう覚えていません",
            "以前の会話を参照できません",
            "以前の内容を覚えていません",
        ],
    ),
    (
        "ko",
        &[
            "다시 알려주",
            "다시 한번 알려주",
            "다시 말씀해주",
            "뭐였죠",
            "얼마였죠",
            "무엇이었죠",
            "뭐였지",
            "더 이상 기억나지 않",
            "더 이상 기억하지 못",
        ],
    ),
    (
        "ar",
        &["هل يمكنك تذكيري", "هل يمكنك أن تذكرني", "هل لك أن تذكرني", "^ ذكرني", "لم أعد أتذكر", "لم يعد لدي السياق"],
    ),
    ("hi", &["मुझे ~ याद दिला सकते|सकती ?", "मुझे फिर से बता सकते|सकती ?", "मुझे अब याद नहीं"]),
];

/// Whether the text asks for something that was said before.
pub fn asks_again(text: &str) -> bool {
    clauses(&spoken(tail(text))).iter().any(|clause| TABLE.iter().any(|phrase| phrase.is_in(clause)))
}

static TABLE: LazyLock<Vec<Phrase>> = LazyLock::new(|| {
    PHRASES.iter().flat_map(|(_, phrases)| phrases.iter().map(|phrase| Phrase::parse(phrase))).collect()
});

fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES_MAX))..]
}

/// The text without code and without quotations.
fn spoken(text: &str) -> String {
    let prose = text.split("```").step_by(2).flat_map(str::lines).filter(|line| !line.trim_start().starts_with('>'));
    prose.map(without_quotes).collect::<Vec<_>>().join("\n")
}

/// The line without what stands between quotation marks or backticks.
fn without_quotes(line: &str) -> String {
    let mut closes = None;
    let kept = line.chars().filter(|c| match closes {
        Some(close) if *c == close => {
            closes = None;
            false
        }
        Some(_) => false,
        None => {
            closes = closing(*c);
            closes.is_none()
        }
    });
    let kept: String = kept.collect();
    // An open quotation mark takes nothing with it: it may be an inch or a typing error.
    if closes.is_some() { line.to_owned() } else { kept }
}

fn closing(open: char) -> Option<char> {
    [('"', '"'), ('`', '`'), ('“', '”'), ('„', '“'), ('«', '»'), ('「', '」')]
        .into_iter()
        .find_map(|(opens, closes)| (opens == open).then_some(closes))
}

/// A clause: its words in lower case, and whether it is part of a question.
#[derive(Debug, Default)]
struct Clause {
    words: Vec<String>,
    asks: bool,
}

fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    for (sentence, asks) in sentences(text) {
        let parts = sentence.split([',', ';', ':', '—', '–', '(', ')', '、', '，', '；', '：', '،']);
        clauses.extend(parts.map(|part| Clause { words: words(part), asks }).filter(|clause| !clause.words.is_empty()));
    }
    clauses
}

/// The sentences, and whether each is a question. A full stop within a word does not end one.
fn sentences(text: &str) -> Vec<(&str, bool)> {
    let mut sentences = Vec::new();
    let (mut from, mut chars) = (0, text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let last = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = matches!(c, '?' | '!' | '…' | '\n' | '。' | '！' | '？' | '؟' | '।') || (c == '.' && last);
        if ends {
            sentences.push((&text[from..at], matches!(c, '?' | '？' | '؟')));
            from = at + c.len_utf8();
        }
    }
    sentences.push((&text[from..], false));
    sentences
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars().flat_map(char::to_lowercase) {
        let is_alone = stands_alone(c);
        if is_alone || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.push(c);
        }
        if is_alone {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Kana, Han and Hangul: in these a character is the smallest thing to look for.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// A phrase of the table.
struct Phrase {
    steps: Vec<Step>,
    only_asked: bool,
}

enum Step {
    Word(String),
    OneOf(Vec<String>),
    Gap((usize, usize)),
    Start,
    End,
}

impl Phrase {
    fn parse(text: &str) -> Self {
        let only_asked = text.ends_with('?');
        let steps = text.trim_end_matches('?').split_whitespace().flat_map(|token| match token {
            "*" => vec![Step::Gap(GAP)],
            "~" => vec![Step::Gap(FILLER)],
            "^" => vec![Step::Start],
            "$" => vec![Step::End],
            token if token.contains('|') => vec![Step::OneOf(words(token))],
            token => words(token).into_iter().map(Step::Word).collect(),
        });
        Phrase { steps: steps.collect(), only_asked }
    }

    fn is_in(&self, clause: &Clause) -> bool {
        let fits = clause.asks || !self.only_asked;
        fits && (0..clause.words.len()).any(|at| follows(&self.steps, &clause.words, at))
    }
}

/// Whether the steps lead on from this word.
fn follows(steps: &[Step], words: &[String], at: usize) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    match step {
        Step::Word(word) => words.get(at) == Some(word) && follows(rest, words, at + 1),
        Step::OneOf(either) => words.get(at).is_some_and(|word| either.contains(word)) && follows(rest, words, at + 1),
        Step::Gap((least, most)) => {
            (*least..=*most).any(|skip| at + skip <= words.len() && follows(rest, words, at + skip))
        }
        Step::Start => at == 0 && follows(rest, words, at),
        Step::End => at == words.len() && follows(rest, words, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Per language: what asks, and what does not.
    const CASES: [(&str, &[&str], &[&str]); 15] = [
        (
            "en",
            &[
                "What was the budget again?",
                "Before I go on: what was the user's budget again?",
                "Sorry, what were the three file names again?",
                "Which database was it again?",
                "Could you remind me which port the server uses?",
                "Can you please remind me what we called the branch?",
                "Please remind me of the deadline.",
                "Remind me what the API key variable is called.",
                "I no longer have the full context of what you asked for. What should I build?",
                "I no longer have access to our earlier messages.",
                "I no longer remember the name of the customer.",
                "I don't recall which region you chose.",
                "I’ve forgotten what the limit was.",
                "Could you paste the error message again?",
                "Would you share the schema again?",
                "What did we decide about retries earlier?",
                "Could you repeat the requirements, so that I can check them?",
                "I can't see the earlier tool output anymore.",
                "Can you tell me again which tests matter?",
                "What's the name of the config.toml section again?",
            ],
            &[
                "Shall I run the tests?",
                "Should I run the tests again?",
                "What was the cause? A missing index.",
                "What was broken before is now fixed; shall I run it again?",
                "What is the best way to retry? Again, a queue.",
                "I'll remind you when it is done.",
                "Would you like me to remind you tomorrow?",
                "I added a reminder: the job reminds me of a cron job.",
                "I forgot to add the import; fixed now.",
                "I forgot the semicolon.",
                "I no longer have any doubts about the fix.",
                "I no longer have permission to write to that folder.",
                "Could you review this?",
                "Could you try again?",
                "Could you run the migration again?",
                "Which of the two do you prefer?",
                "Do you want me to continue?",
                "Let me read the file again.",
                "I don't remember this API having a timeout parameter, so I checked the docs.",
                "The user said \"what was the budget again?\" and I answered.",
                "```\nprint(\"could you remind me?\")\n```\nThis is the script.",
                "> what was the budget again?\nThe budget is 40.",
                "The function asks `could you remind me?` when empty.",
                "You can tell me more about it, or I can look myself.",
                "Once again, all tests pass.",
                "Do you want to repeat the migration?",
                "Would you like me to repeat the benchmark?",
                "Could you send the report to the team?",
            ],
        ),
        (
            "de",
            &[
                "Wie war das Budget nochmal?",
                "Was war nochmal der Name der Datei?",
                "Kannst du mich bitte daran erinnern, welche Version gilt?",
                "Könnten Sie mir bitte noch einmal sagen, wohin die Daten sollen?",
                "Ich weiß nicht mehr, welche Datenbank du wolltest.",
                "Mir liegt der frühere Verlauf nicht mehr vor.",
            ],
            &[
                "Soll ich die Tests noch einmal ausführen?",
                "Was war die Ursache?",
                "Kannst du den Server nochmal starten?",
                "Ich weiß nicht mehr weiter, ohne die Logs zu sehen.",
                "Ich erinnere dich morgen daran.",
            ],
        ),
        (
            "fr",
            &[
                "Quel était le budget déjà ?",
                "C’était quoi déjà, le nom du fichier ?",
                "Pourriez-vous me rappeler le nom de la branche ?",
                "Je ne me souviens plus de la version choisie.",
            ],
            &[
                "Dois-je relancer les tests ?",
                "Quelle était la cause ?",
                "Le fichier existe déjà, dois-je le remplacer ?",
                "Voulez-vous que je vous rappelle demain ?",
            ],
        ),
        (
            "es",
            &[
                "¿Me puedes recordar el presupuesto?",
                "¿Podrías recordarme cuál era el límite?",
                "Ya no recuerdo qué versión era.",
            ],
            &[
                "¿Ejecuto las pruebas otra vez?",
                "¿Cuál era la causa?",
                "¿Puedes recordar al equipo que revise el cambio?",
            ],
        ),
        (
            "pt",
            &["Qual era mesmo o orçamento?", "Você pode me lembrar o nome do arquivo?", "Já não me lembro da versão."],
            &["Devo executar os testes?", "Qual era a causa?", "Lembre-se de fazer o deploy."],
        ),
        (
            "it",
            &["Potresti ricordarmi il budget?", "Mi puoi ricordare il nome del file?", "Non ricordo più la versione."],
            &["Devo eseguire i test?", "Qual era la causa?", "Ricordati di fare il deploy."],
        ),
        (
            "nl",
            &[
                "Wat was het budget ook alweer?",
                "Kun je me even herinneren aan de deadline?",
                "Ik weet niet meer welke versie het was.",
            ],
            &["Zal ik de tests draaien?", "Wat was de oorzaak?", "Ik herinner je er morgen aan."],
        ),
        (
            "pl",
            &["Czy możesz mi przypomnieć budżet?", "Przypomnij mi, jaki był limit.", "Już nie pamiętam nazwy pliku."],
            &["Czy mam uruchomić testy?", "Jaka była przyczyna?", "Przypomnę ci jutro."],
        ),
        (
            "ru",
            &[
                "Не могли бы вы напомнить, какой был бюджет?",
                "Напомните, пожалуйста, как называется файл?",
                "Я уже не помню, какая была версия.",
            ],
            &["Запустить тесты?", "Какая была причина?", "Напомнить вам завтра?"],
        ),
        (
            "tr",
            &[
                "Bütçeyi bana tekrar hatırlatır mısın?",
                "Dosya adını hatırlatabilir misiniz?",
                "Sürümü artık hatırlamıyorum.",
            ],
            &["Testleri çalıştırayım mı?", "Sebep neydi?", "Size yarın hatırlatayım mı?"],
        ),
        (
            "zh",
            &["预算是多少来着？", "您能再提醒我一下文件名吗？", "我已经不记得之前的版本了。"],
            &["需要我运行测试吗？", "原因是什么？", "要我明天提醒你吗？"],
        ),
        (
            "ja",
            &["予算はいくらでしたっけ？", "ファイル名をもう一度教えていただけますか？", "もう覚えていません。"],
            &[
                "テストを実行しますか？",
                "原因は何ですか？",
                "もう一度実行しますか？",
                "終わったらもう一度お知らせします。",
            ],
        ),
        (
            "ko",
            &["예산이 얼마였죠?", "파일 이름을 다시 알려주시겠어요?", "버전이 더 이상 기억나지 않습니다."],
            &["테스트를 실행할까요?", "원인이 무엇인가요?", "다시 알려 드릴까요?"],
        ),
        ("ar", &["هل يمكنك تذكيري بالميزانية؟", "لم أعد أتذكر اسم الملف."], &["هل أشغل الاختبارات؟", "ما هو السبب؟"]),
        (
            "hi",
            &["क्या आप मुझे बजट याद दिला सकते हैं?", "मुझे अब याद नहीं कि संस्करण कौन सा था।"],
            &["क्या मैं परीक्षण चलाऊँ?", "कारण क्या था?"],
        ),
    ];

    #[test]
    fn an_agent_that_asks_for_what_it_was_told_is_heard_and_ordinary_questions_are_not() {
        for (language, asking, ordinary) in CASES {
            for text in asking {
                assert!(asks_again(text), "{language}: {text} asks for what was said before");
            }
            for text in ordinary {
                assert!(!asks_again(text), "{language}: {text} is an ordinary sentence");
            }
        }
    }

    #[test]
    fn every_language_of_the_table_is_tried_in_its_own_words() {
        for ((language, phrases), (tried, asking, _)) in PHRASES.iter().zip(CASES) {
            assert_eq!(*language, tried);
            let table: Vec<Phrase> = phrases.iter().map(|phrase| Phrase::parse(phrase)).collect();
            let own = |text: &&str| clauses(&spoken(text)).iter().any(|clause| table.iter().any(|p| p.is_in(clause)));
            assert!(asking.iter().all(own), "{language} leans on another language");
        }
    }

    #[test]
    fn a_long_text_is_searched_from_its_end_and_cut_between_characters() {
        let long = "ж".repeat(TEXT_BYTES_MAX);
        assert!(asks_again(&format!("{long}. What was the budget again?")));
        assert!(!asks_again(&format!("What was the budget again? {long}x")));
    }
}
