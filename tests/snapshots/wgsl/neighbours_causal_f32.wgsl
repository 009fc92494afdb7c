@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn neighbours_causal_f32(@builtin(workgroup_id) v296: vec3<u32>, @builtin(num_workgroups) v298: vec3<u32>, @builtin(local_invocation_index) v305: u32) {
let v326 = &v13;
let v327 = &v9;
let v328 = &v5;
let v329 = &v1;
let v3 = u32(0);
let v216 = info_var.static_meta[2];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_u32[0];
let v297 = v296[2];
let v228 = u32(v297);
let v299 = v298[1];
let v230 = u32(v299);
let v231 = v228 * v230;
let v300 = v298[0];
let v233 = u32(v300);
let v234 = v231 * v233;
let v301 = v296[1];
let v236 = u32(v301);
let v239 = v236 * v233;
let v240 = v234 + v239;
let v303 = v296[0];
let v242 = u32(v303);
let v243 = v240 + v242;
let v323 = u32(64);
let v246 = v243 * v323;
let v306 = v305;
let v248 = u32(v306);
let v249 = v246 + v248;
let v22 = v249 < v216;
if v22 {
let v24 = v249 / v18;
let v25 = u32(v24);
let v27 = v249 % v18;
var<function> v218_store: u32;
let v218 = &v218_store;
*v218 = v3;
var<function> v219_store: u32;
let v219 = &v219_store;
*v219 = v17;
loop {
let v32 = *v218;
let v33 = *v219;
let v34 = v32 < v33;
if !v34 { break; }
let v36 = *v218;
let v37 = *v219;
let v38 = v36 + v37;
let v39 = u32(2);
let v40 = v38 / v39;
let v41 = u32(1);
let v42 = v40 + v41;
let v46 = &(*v328)[v42];
let v47 = *v46;
let v48 = v47 > v25;
if v48 {
*v219 = v40;

} else {
*v218 = v42;

}

}
let v53 = *v218;
let v55 = &(*v328)[v53];
let v56 = *v55;
let v58 = u32(1);
let v59 = v53 + v58;
let v60 = min(v59, v17);
let v64 = &(*v328)[v60];
let v65 = *v64;
let v68 = u32(2);
let v69 = v25 - v68;
let v70 = f32(0.0);
let v71 = vec4<f32>(v70);
var<function> v221_store: vec4<f32>;
let v221 = &v221_store;
*v221 = v71;
let v73 = false;
var<function> v222_store: bool;
let v222 = &v222_store;
*v222 = v73;
let v76 = v69 >= v56;
let v77 = v69 < v65;
let v78 = v76 && v77;
if v78 {
let v79 = u32(v69);
let v83 = &(*v329)[v79];
let v84 = *v83;
let v85 = v84 / v19;
let v86 = u32(v25);
let v90 = &(*v329)[v86];
let v91 = *v90;
let v92 = v91 / v19;
let v93 = v85 == v92;
*v222 = v93;

}
let v94 = *v222;
if v94 {
let v95 = u32(v69);
let v96 = v95 * v18;
let v97 = v96 + v27;
let v101 = &(*v327)[v97];
let v102 = *v101;
*v221 = v102;

}
let v103 = u32(v25);
let v104 = u32(3);
let v105 = v103 * v104;
let v108 = v105 * v18;
let v109 = v108 + v27;
let v113 = &(*v326)[v109];
let v114 = *v221;
*v113 = v114;
let v115 = u32(1);
let v116 = v25 + v115;
let v118 = v116 - v68;
var<function> v223_store: vec4<f32>;
let v223 = &v223_store;
*v223 = v71;
var<function> v224_store: bool;
let v224 = &v224_store;
*v224 = v73;
let v125 = v118 >= v56;
let v126 = v118 < v65;
let v127 = v125 && v126;
if v127 {
let v128 = u32(v118);
let v132 = &(*v329)[v128];
let v133 = *v132;
let v134 = v133 / v19;
let v139 = &(*v329)[v103];
let v140 = *v139;
let v141 = v140 / v19;
let v142 = v134 == v141;
*v224 = v142;

}
let v143 = *v224;
if v143 {
let v144 = u32(v118);
let v145 = v144 * v18;
let v146 = v145 + v27;
let v150 = &(*v327)[v146];
let v151 = *v150;
*v223 = v151;

}
let v156 = v105 + v58;
let v157 = v156 * v18;
let v158 = v157 + v27;
let v162 = &(*v326)[v158];
let v163 = *v223;
*v162 = v163;
let v165 = v25 + v68;
let v167 = v165 - v68;
var<function> v225_store: vec4<f32>;
let v225 = &v225_store;
*v225 = v71;
var<function> v226_store: bool;
let v226 = &v226_store;
*v226 = v73;
let v174 = v167 >= v56;
let v175 = v167 < v65;
let v176 = v174 && v175;
if v176 {
let v177 = u32(v167);
let v181 = &(*v329)[v177];
let v182 = *v181;
let v183 = v182 / v19;
let v188 = &(*v329)[v103];
let v189 = *v188;
let v190 = v189 / v19;
let v191 = v183 == v190;
*v226 = v191;

}
let v192 = *v226;
if v192 {
let v193 = u32(v167);
let v194 = v193 * v18;
let v195 = v194 + v27;
let v199 = &(*v327)[v195];
let v200 = *v199;
*v225 = v200;

}
let v204 = u32(2);
let v205 = v105 + v204;
let v206 = v205 * v18;
let v207 = v206 + v27;
let v211 = &(*v326)[v207];
let v212 = *v225;
*v211 = v212;

}
return;

}
