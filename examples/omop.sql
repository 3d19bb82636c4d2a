-- One row for each visit of an OMOP common data model (version 5.4), with the patient's age and sex
-- and the lowest systolic blood pressure and body weight of that visit.
SELECT
    care_site.care_site_name AS centre,
    visit_occurrence.person_id AS person_id,
    CAST(substr(CAST(visit_occurrence.visit_start_date AS TEXT), 1, 4) AS INTEGER)
        - person.year_of_birth AS age,
    CASE person.gender_concept_id WHEN 8532 THEN 'female' WHEN 8507 THEN 'male' END AS sex,
    CASE visit_occurrence.visit_concept_id
        WHEN 9201 THEN 'inpatient' WHEN 9202 THEN 'outpatient' WHEN 9203 THEN 'emergency'
        ELSE 'unlisted' END AS visit,
    (SELECT MIN(value_as_number) FROM measurement
        WHERE measurement.visit_occurrence_id = visit_occurrence.visit_occurrence_id
        AND measurement.measurement_concept_id = 3004249) AS systolic,
    (SELECT MIN(value_as_number) FROM measurement
        WHERE measurement.visit_occurrence_id = visit_occurrence.visit_occurrence_id
        AND measurement.measurement_concept_id = 3025315) AS weight
FROM visit_occurrence
JOIN person ON person.person_id = visit_occurrence.person_id
JOIN care_site ON care_site.care_site_id = visit_occurrence.care_site_id
